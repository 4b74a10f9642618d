"""How each of vLLM's drafters can be given a draft length at run time, or why it cannot.

Read in vLLM 0.32.0. Every drafter receives the length of the step, but not every one works with a
length other than the maximum: for Model Runner V1 see
`v1/worker/gpu_model_runner.py::propose_draft_token_ids`, for V2, vLLM's default wherever Triton
runs (GPUs), the classes in `v1/worker/gpu/spec_decode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal


@dataclass(frozen=True, slots=True)
class DrafterControl:
    """What can be done with one drafting method."""

    how: Literal["ask", "cut", "trim", "refuse"]
    """`ask`: the drafter proposes as many tokens as the step says, so a shorter length saves its
    time too. `cut`: it always proposes the maximum, and vLLM's worker cuts off the surplus.
    `trim`: it always proposes the maximum, and the scheduler takes the surplus away before it is
    verified. `refuse`: none of these works."""
    why: str


_ASK = DrafterControl("ask", "proposes as many tokens as each step asks for")
_ASK_ONE_PASS = DrafterControl("ask", "drafts all tokens in one pass; a shorter length trims it")
_CUT_BY_V2 = DrafterControl(
    "cut",
    "always drafts the maximum under Model Runner V2, which cuts off the surplus: a shorter length "
    "saves verification, not drafting",
)

DRAFTERS: dict[str, DrafterControl] = {
    "draft_model": _ASK,
    "ngram": _ASK,
    "eagle": _ASK,
    "eagle3": _ASK,
    "mtp": _ASK,
    "dflash": _ASK_ONE_PASS,
    "suffix": DrafterControl(
        "trim", "asserts that the length is the maximum and decides by itself how far to draft"
    ),
    "custom_class": DrafterControl("trim", "is not told the length of the step"),
    "ngram_gpu": DrafterControl(
        "refuse",
        "asserts that the length is the maximum and needs asynchronous scheduling, "
        "where its drafts cannot be trimmed; use ngram",
    ),
    "medusa": DrafterControl(
        "refuse", "asserts that the length is the maximum (vLLM #46399); use eagle3 or mtp"
    ),
    "mlp_speculator": DrafterControl("refuse", "was never run under the governor"),
    "extract_hidden_states": DrafterControl("refuse", "extracts states and does not speculate"),
}


_ASKED_BY_V2 = frozenset({"eagle", "eagle3", "mtp"})
"""What Model Runner V2 asks for a shorter draft (`target_dependent_ar`). An mtp with several
modules is not among them, but only the model's configuration tells it apart; it counts as asked."""


def drafter_control(method: str, *, use_v2_model_runner: bool) -> DrafterControl:
    """How `method` (vLLM's speculative_config.method, resolved) can be controlled."""
    control = _control_under_v1(method)
    if use_v2_model_runner and control.how == "ask":
        asked = method in _ASKED_BY_V2 or method.endswith("mtp")
        return control if asked else _CUT_BY_V2
    return control


def _control_under_v1(method: str) -> DrafterControl:
    if method in DRAFTERS:
        return DRAFTERS[method]
    if method.endswith("mtp"):  # deepseek_mtp, qwen3_next_mtp, …: vLLM maps them to "mtp"
        return DRAFTERS["mtp"]
    return DrafterControl("refuse", "is not known to Paceline")


def missing_for_drafter(method: str) -> str | None:
    """What must be installed before `method` can run; None when nothing is missing."""
    if method == "suffix" and find_spec("arctic_inference") is None:
        return (
            "suffix decoding needs the package arctic-inference, which is not installed; "
            "install it with: pip install arctic-inference==0.1.1 (it compiles from source)"
        )
    return None
