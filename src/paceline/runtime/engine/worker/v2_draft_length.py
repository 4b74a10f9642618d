"""Make Model Runner V2's draft model and n-gram drafter follow the draft length of a step.

All V2 speculators receive the length. Those of EAGLE and MTP follow it; those of the draft model
and of n-gram lookup ignore it and draft the maximum; the runner then masks the surplus. When the
scheduler starts, `propose` of each worker's speculator is therefore wrapped: the draft model runs
as many passes as tokens are asked for (one at length 0, which keeps its KV cache current), and the
n-gram search is skipped at length 0. (At other lengths one search finds all tokens.)

Never run on a GPU: the tests run vLLM's own methods on a CPU around an artificial model.
"""

from __future__ import annotations

import functools
from typing import Any

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.compat.wrapping import wrap_once

_PART = "v2_draft_length"
_LENGTH = "num_speculative_tokens"
"""The argument of `propose` with the length of the step."""


def patch_worker(worker: Any) -> str:
    """In the worker: wrap its speculator's `propose`; return "" or why not. Idempotent."""
    misfit = unfit_for(_PART, check_hooks(_PART))
    if misfit:
        return misfit
    from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator
    from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator

    speculator: Any = getattr(worker.model_runner, "speculator", None)
    if speculator is None:
        return ""  # only the last stage of a pipeline drafts
    if isinstance(speculator, StandaloneARSpeculator):
        wrapper = _propose_with_fewer_passes
    elif isinstance(speculator, NgramGPUSpeculator):
        wrapper = _propose_unless_length_0
    else:
        return f"{type(speculator).__name__} is neither a draft model's nor an n-gram speculator"
    wrap_once(speculator, "propose", _PART, functools.partial(wrapper, speculator))
    return ""


def _propose_with_fewer_passes(
    speculator: Any, stock: Any, input_batch: Any, *arguments: Any, **named: Any
) -> Any:
    """Propose with the speculator's own maximum lowered during the call.

    Returns all columns, as the runner expects; the runner masks those that were not drafted.
    """
    length, maximum = named.get(_LENGTH), speculator.num_speculative_steps
    if length is None or length >= maximum:
        return stock(input_batch, *arguments, **named)
    speculator.num_speculative_steps = max(length, 1)
    try:
        stock(input_batch, *arguments, **named)
    finally:
        speculator.num_speculative_steps = maximum
    return speculator.draft_tokens[: input_batch.num_reqs]


def _propose_unless_length_0(
    speculator: Any, stock: Any, input_batch: Any, *arguments: Any, **named: Any
) -> Any:
    """Skip the search at length 0 and return the speculator's buffer unchanged."""
    if named.get(_LENGTH) == 0:
        return speculator.drafts[: input_batch.num_reqs]
    return stock(input_batch, *arguments, **named)
