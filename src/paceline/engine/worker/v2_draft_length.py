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

from paceline.engine.compat.checks import check_hooks, unfit_for

_MARK = "__paceline_draft_length__"


def patch_worker(worker: Any) -> str:
    """In the worker: wrap its speculator's `propose`; return "" or why not. Idempotent."""
    misfit = unfit_for("v2_draft_length", check_hooks("v2_draft_length"))
    if misfit:
        return misfit
    from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator
    from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator

    speculator: Any = getattr(worker.model_runner, "speculator", None)
    if speculator is None:
        return ""  # only the last stage of a pipeline drafts
    kinds = {StandaloneARSpeculator: _with_fewer_passes, NgramGPUSpeculator: _skipped_at_length_0}
    wrap = next((kinds[kind] for kind in kinds if isinstance(speculator, kind)), None)
    if wrap is None:
        return f"{type(speculator).__name__} is neither a draft model's nor an n-gram speculator"
    if not hasattr(speculator.propose, _MARK):
        propose = wrap(speculator)
        setattr(propose, _MARK, True)
        speculator.propose = propose
    return ""


def _with_fewer_passes(speculator: Any) -> Any:
    """Return `propose` with the speculator's own maximum lowered during the call.

    It returns all columns, as the runner expects; the runner masks those that were not drafted.
    """
    stock = speculator.propose

    @functools.wraps(stock)
    def propose(
        input_batch: Any, *arguments: Any, num_speculative_tokens: int | None = None, **named: Any
    ) -> Any:
        maximum = speculator.num_speculative_steps
        if num_speculative_tokens is None or num_speculative_tokens >= maximum:
            return stock(input_batch, *arguments, **named)
        speculator.num_speculative_steps = max(num_speculative_tokens, 1)
        try:
            stock(input_batch, *arguments, **named)
        finally:
            speculator.num_speculative_steps = maximum
        return speculator.draft_tokens[: input_batch.num_reqs]

    return propose


def _skipped_at_length_0(speculator: Any) -> Any:
    """Return a `propose` that skips its search at length 0 and returns its buffer unchanged."""
    stock = speculator.propose

    @functools.wraps(stock)
    def propose(
        input_batch: Any, *arguments: Any, num_speculative_tokens: int | None = None, **named: Any
    ) -> Any:
        if num_speculative_tokens == 0:
            return speculator.drafts[: input_batch.num_reqs]
        return stock(input_batch, *arguments, **named)

    return propose
