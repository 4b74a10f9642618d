"""What each of vLLM's drafters does with a draft length that changes at run time.

Written from the source of vLLM 0.32 and 0.33. Every drafter receives the length of the step, but
some work only with the maximum. For Model Runner V1 see
`v1/worker/gpu_model_runner.py::propose_draft_token_ids` and the classes in `v1/spec_decode`; for
V2, vLLM's default wherever Triton runs (GPUs), see `v1/worker/gpu/spec_decode`. A method that is
missing from these tables is refused, because its handling of the length has not been read yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Drafting:
    """The part of vLLM's configuration that decides how its drafter treats the length of a step."""

    method: str
    """speculative_config.method as vLLM has resolved it: every kind of MTP is "mtp" by then."""
    use_v2_model_runner: bool = False
    is_parallel: bool = False
    """All tokens are drafted in one pass (P-EAGLE, PARD, `parallel_drafting`)."""
    has_many_mtp_modules: bool = False
    """Each draft position has an MTP module of its own."""


@dataclass(frozen=True, slots=True)
class DrafterControl:
    """How the draft length of one drafting method can be controlled."""

    mode: Literal["follows", "patched", "masked", "trimmed", "refused"]
    """- `follows`: the drafter proposes as many tokens as the step says, so a shorter length saves
      drafting time too.
    - `patched`: it follows once its method is wrapped in the workers (`worker.v2_draft_length`).
    - `masked`: it always drafts the maximum, and vLLM's worker masks the surplus.
    - `trimmed`: it always drafts the maximum, and the scheduler removes the surplus before it is
      verified.
    - `refused`: none of these works."""
    why: str
    """Completes a sentence that begins with the drafter, such as "drafter ngram, which …"."""


_FOLLOWS = DrafterControl("follows", "proposes as many tokens as each step asks for")
_PATCHED = DrafterControl(
    "patched",
    "proposes as many tokens as each step asks for, because Paceline wraps it in vLLM's workers",
)
_TRIMMED_PARALLEL = DrafterControl(
    "trimmed", "drafts all tokens in one pass whose width is fixed to the maximum length"
)
_REFUSED_STATES = DrafterControl("refused", "extracts hidden states and does not speculate")
_REFUSED_MLP = DrafterControl("refused", "has no proposer in vLLM; use eagle3 or mtp")

UNPATCHED = DrafterControl(
    "masked",
    "always drafts the maximum under Model Runner V2, which masks the surplus: a shorter length "
    "saves verification, not drafting",
)
"""Replaces `patched` where the workers could not be patched."""

UNDER_V1: dict[str, DrafterControl] = {
    "draft_model": _FOLLOWS,
    "ngram": _FOLLOWS,
    "eagle": _FOLLOWS,
    "eagle3": _FOLLOWS,
    # Step 3.5's MTP runs its output layer at length 0 too; the scheduler trims that token.
    "mtp": _FOLLOWS,
    "dflash": DrafterControl("follows", "drafts in one pass that is as wide as each step asks for"),
    "suffix": DrafterControl(
        "trimmed", "asserts that the length is the maximum and chooses its own length below it"
    ),
    "medusa": DrafterControl(
        "trimmed",
        "asserts that the length is the maximum, and drafts one token with each of its heads",
    ),
    "custom_class": DrafterControl("trimmed", "does not receive the length of the step"),
    "ngram_gpu": DrafterControl(
        "refused",
        "asserts that the length is the maximum and needs asynchronous scheduling, "
        "where its drafts cannot be trimmed; use ngram",
    ),
    "dspark": DrafterControl("refused", "runs under Model Runner V2 only"),
    "mlp_speculator": _REFUSED_MLP,
    "extract_hidden_states": _REFUSED_STATES,
}

_REFUSED_V1_ONLY = DrafterControl(
    "refused", "runs under Model Runner V1 only: unset VLLM_USE_V2_MODEL_RUNNER"
)
_REFUSED_PARALLEL = DrafterControl(
    "refused",
    "drafts all tokens in one pass (parallel_drafting), which is governed under Model Runner V1 "
    "only: unset VLLM_USE_V2_MODEL_RUNNER, or set parallel_drafting to false",
)
_REFUSED_MANY_MODULES = DrafterControl(
    "refused",
    "has several MTP modules, whose KV caches Model Runner V2 repairs only after drafts of the "
    "maximum length: set num_speculative_tokens to 1, which uses one module",
)
_FOLLOWS_IN_GRAPHS = DrafterControl(
    "follows",
    "proposes as many tokens as each step asks for; in full CUDA graphs only lengths 0 and 1 save "
    "drafting, unless num_speculative_tokens_per_batch_size names each length, which makes vLLM "
    "capture a graph for it",
)
_MASKED_ONE_PASS = DrafterControl(
    "masked",
    "drafts a whole block in one pass of fixed width, and Model Runner V2 masks the surplus: a "
    "shorter length saves verification, not drafting",
)

UNDER_V2: dict[str, DrafterControl] = {
    "draft_model": _PATCHED,
    "ngram": _PATCHED,
    "ngram_gpu": _PATCHED,  # the same class as ngram under this runner
    "eagle": _FOLLOWS_IN_GRAPHS,
    "eagle3": _FOLLOWS_IN_GRAPHS,
    "mtp": _FOLLOWS_IN_GRAPHS,
    "dflash": _MASKED_ONE_PASS,
    "dspark": _MASKED_ONE_PASS,
    "suffix": _REFUSED_V1_ONLY,
    "medusa": _REFUSED_V1_ONLY,
    "custom_class": _REFUSED_V1_ONLY,
    "mlp_speculator": _REFUSED_MLP,
    "extract_hidden_states": _REFUSED_STATES,
}
"""Methods that vLLM itself refuses under this runner are refused here too, before models load."""


def drafting_of(vllm_config: Any) -> Drafting:
    """Read `Drafting` from vLLM's configuration."""
    speculative = vllm_config.speculative_config
    return Drafting(
        method=speculative.method,
        use_v2_model_runner=vllm_config.use_v2_model_runner,
        is_parallel=speculative.parallel_drafting,
        has_many_mtp_modules=speculative.use_multi_module_mtp(),
    )


def drafter_control(drafting: Drafting) -> DrafterControl:
    """Return how this drafter can be controlled; an unknown method is refused."""
    table = UNDER_V2 if drafting.use_v2_model_runner else UNDER_V1
    control = table.get(drafting.method)
    if control is None:
        governed = sorted(name for name, known in table.items() if known.mode != "refused")
        return DrafterControl(
            "refused", f"is not known to Paceline, which governs {', '.join(governed)}"
        )
    if drafting.is_parallel and drafting.method not in ("dflash", "dspark"):
        return _REFUSED_PARALLEL if drafting.use_v2_model_runner else _TRIMMED_PARALLEL
    if drafting.has_many_mtp_modules and drafting.use_v2_model_runner:
        return _REFUSED_MANY_MODULES
    return control


def refused_in_pipeline(method: str, *, use_v2_model_runner: bool) -> str | None:
    """Return why a drafter does not run with several pipeline stages; None if it may.

    vLLM refuses none of these: it loads the model, and the first step fails. Under Model
    Runner V1, `_build_attention_metadata` reads `self.drafter` in all stages (vLLM #30436); beyond
    that, the drafts of a step reach the scheduler before its tokens, and stages but the last do not
    learn accepted drafts. Under both runners, the draft model is built from the layers that the
    pipeline's division leaves to the last stage (`model_executor/models/utils.py::make_layers`).
    """
    if not use_v2_model_runner:
        return (
            "under vLLM's Model Runner V1, which CPUs use, only the last stage has a drafter, and "
            "the other stages fail for want of one"
        )
    if method == "draft_model":
        return "vLLM loads only the last stage's share of its layers"
    return None


def refused_everywhere(method: str) -> str | None:
    """Return why `method` cannot be governed under either model runner; None if it can under one.

    Also None for a method that is in neither table: vLLM may know it by another name.
    """
    controls = [table[method] for table in (UNDER_V1, UNDER_V2) if method in table]
    is_refused = bool(controls) and all(control.mode == "refused" for control in controls)
    return controls[0].why if is_refused else None


def missing_for_drafter(method: str) -> str | None:
    """Return which package `method` still needs and how to install it; None if it needs none."""
    if method == "suffix" and find_spec("arctic_inference") is None:
        return (
            "suffix decoding needs the package arctic-inference, which is not installed; "
            "install it with: pip install arctic-inference==0.1.1 (it compiles from source)"
        )
    return None
