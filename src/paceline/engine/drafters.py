"""How each of vLLM's drafters can be given a draft length at run time, or why it cannot.

Read in vLLM 0.32.0, `v1/worker/gpu_model_runner.py::propose_draft_token_ids`: every drafter
receives the length of the step, but not every one can work with a length other than the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal


@dataclass(frozen=True, slots=True)
class DrafterControl:
    """What can be done with one drafting method."""

    how: Literal["ask", "trim", "refuse"]
    """`ask`: the drafter proposes as many tokens as the step says, so a shorter length saves its
    time too. `trim`: it always proposes the maximum, and the surplus is not verified. `refuse`:
    neither works."""
    why: str


_ASK = DrafterControl("ask", "proposes as many tokens as each step asks for")
_ASK_ONE_PASS = DrafterControl("ask", "drafts all tokens in one pass; a shorter length trims it")

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


def drafter_control(method: str) -> DrafterControl:
    """How `method` (vLLM's speculative_config.method, resolved) can be controlled."""
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
