"""How each of vLLM's drafters can be given a draft length at run time, or why it cannot.

Read in vLLM 0.32.0. Every drafter receives the length of the step, but not every one works with a
length other than the maximum: for Model Runner V1 see
`v1/worker/gpu_model_runner.py::propose_draft_token_ids` and the classes in `v1/spec_decode`, for
V2, vLLM's default wherever Triton runs (GPUs), the classes in `v1/worker/gpu/spec_decode`. A method
that is in no table here is refused: nobody has read yet what it does with the length.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Drafting:
    """What decides in vLLM's configuration how its drafter treats the length of a step."""

    method: str
    """speculative_config.method as vLLM has resolved it: every kind of MTP is "mtp" by then."""
    use_v2_model_runner: bool = False
    is_parallel: bool = False
    """All tokens are drafted in one pass (P-EAGLE, PARD, `parallel_drafting`)."""
    has_many_mtp_modules: bool = False
    """Each further token has an MTP module of its own."""


@dataclass(frozen=True, slots=True)
class DrafterControl:
    """What can be done with one drafting method."""

    how: Literal["ask", "teach", "cut", "trim", "refuse"]
    """`ask`: the drafter proposes as many tokens as the step says, so a shorter length saves its
    time too. `teach`: vLLM's own does not, but does once its method is wrapped in the workers
    (`v2_draft_length`). `cut`: it always drafts the maximum, and vLLM's worker cuts off the
    surplus. `trim`: it always proposes the maximum, and the scheduler takes the surplus away before
    it is verified. `refuse`: none of these works."""
    why: str


_ASK = DrafterControl("ask", "proposes as many tokens as each step asks for")
_TEACH = DrafterControl(
    "teach", "proposes as many tokens as each step asks for, once it is wrapped in vLLM's workers"
)
_TRIM_PARALLEL = DrafterControl(
    "trim", "drafts all tokens in one pass that is made for the maximum length only"
)
_REFUSE_STATES = DrafterControl("refuse", "extracts states and does not speculate")
_REFUSE_MLP = DrafterControl("refuse", "has no proposer left in vLLM 0.32; use eagle3 or mtp")

UNTAUGHT = DrafterControl(
    "cut",
    "always drafts the maximum under Model Runner V2, which cuts off the surplus: a shorter length "
    "saves verification, not drafting",
)
"""What becomes of `teach` where the workers cannot be taught."""

UNDER_V1: dict[str, DrafterControl] = {
    "draft_model": _ASK,
    "ngram": _ASK,
    "eagle": _ASK,
    "eagle3": _ASK,
    "mtp": _ASK,  # Step 3.5's runs its output layer at length 0 too; the scheduler trims that token
    "dflash": DrafterControl("ask", "drafts in one pass that is as wide as each step asks for"),
    "suffix": DrafterControl(
        "trim", "asserts that the length is the maximum and decides by itself how far to draft"
    ),
    "medusa": DrafterControl(
        "trim",
        "asserts that the length is the maximum, and drafts one token with each of its heads",
    ),
    "custom_class": DrafterControl("trim", "is not told the length of the step"),
    "ngram_gpu": DrafterControl(
        "refuse",
        "asserts that the length is the maximum and needs asynchronous scheduling, "
        "where its drafts cannot be trimmed; use ngram",
    ),
    "dspark": DrafterControl("refuse", "runs under Model Runner V2 only"),
    "mlp_speculator": _REFUSE_MLP,
    "extract_hidden_states": _REFUSE_STATES,
}

_REFUSE_V1_ONLY = DrafterControl(
    "refuse", "runs under Model Runner V1 only: unset VLLM_USE_V2_MODEL_RUNNER"
)
_REFUSE_PARALLEL = DrafterControl(
    "refuse",
    "drafts all tokens in one pass (parallel_drafting), which is governed under Model Runner V1 "
    "only: unset VLLM_USE_V2_MODEL_RUNNER, or set parallel_drafting to false",
)
_REFUSE_MANY_MODULES = DrafterControl(
    "refuse",
    "has several MTP modules, whose KV caches Model Runner V2 repairs after drafts of the maximum "
    "length only: set num_speculative_tokens to 1, which takes one module",
)
_ASK_IN_GRAPHS = DrafterControl(
    "ask",
    "proposes as many tokens as each step asks for; in full CUDA graphs only lengths 0 and 1 save "
    "drafting, unless num_speculative_tokens_per_batch_size names each length, which has them "
    "captured",
)
_CUT_ONE_PASS = DrafterControl(
    "cut",
    "drafts a whole block in one pass of fixed width, and Model Runner V2 cuts off the surplus: a "
    "shorter length saves verification, not drafting",
)

UNDER_V2: dict[str, DrafterControl] = {
    "draft_model": _TEACH,
    "ngram": _TEACH,
    "ngram_gpu": _TEACH,  # the same class under this runner
    "eagle": _ASK_IN_GRAPHS,
    "eagle3": _ASK_IN_GRAPHS,
    "mtp": _ASK_IN_GRAPHS,
    "dflash": _CUT_ONE_PASS,
    "dspark": _CUT_ONE_PASS,
    "suffix": _REFUSE_V1_ONLY,
    "medusa": _REFUSE_V1_ONLY,
    "custom_class": _REFUSE_V1_ONLY,
    "mlp_speculator": _REFUSE_MLP,
    "extract_hidden_states": _REFUSE_STATES,
}
"""What vLLM itself refuses under this runner is refused here too, before anything is loaded."""


def drafting_of(vllm_config: Any) -> Drafting:
    """Read it out of vLLM's configuration."""
    speculative = vllm_config.speculative_config
    return Drafting(
        method=speculative.method,
        use_v2_model_runner=vllm_config.use_v2_model_runner,
        is_parallel=speculative.parallel_drafting,
        has_many_mtp_modules=speculative.use_multi_module_mtp(),
    )


def drafter_control(drafting: Drafting) -> DrafterControl:
    """How this drafter can be controlled."""
    table = UNDER_V2 if drafting.use_v2_model_runner else UNDER_V1
    control = table.get(drafting.method)
    if control is None:
        governed = sorted(name for name, known in table.items() if known.how != "refuse")
        return DrafterControl(
            "refuse", f"is not known to Paceline, which governs {', '.join(governed)}"
        )
    if drafting.is_parallel and drafting.method not in ("dflash", "dspark"):
        return _REFUSE_PARALLEL if drafting.use_v2_model_runner else _TRIM_PARALLEL
    if drafting.has_many_mtp_modules and drafting.use_v2_model_runner:
        return _REFUSE_MANY_MODULES
    return control


def refused_everywhere(method: str) -> str | None:
    """Why `method` cannot be governed under either model runner; None where it can under one.

    None as well for a method that is in no table: vLLM may know it by another name.
    """
    controls = [table[method] for table in (UNDER_V1, UNDER_V2) if method in table]
    is_refused = bool(controls) and all(control.how == "refuse" for control in controls)
    return controls[0].why if is_refused else None


def missing_for_drafter(method: str) -> str | None:
    """What must be installed before `method` can run; None when nothing is missing."""
    if method == "suffix" and find_spec("arctic_inference") is None:
        return (
            "suffix decoding needs the package arctic-inference, which is not installed; "
            "install it with: pip install arctic-inference==0.1.1 (it compiles from source)"
        )
    return None
