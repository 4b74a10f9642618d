"""How does Model Runner V2 draft no further than a step says, with a draft model or by n-grams?

Its speculators are all told the length of a step. Those of EAGLE and MTP heed it; those of the
draft model and of n-gram lookup take the number and draft the maximum, of which the runner then
masks what is too much. A draft model's pass per token is what a shorter length is to save, so
`propose` is wrapped here, on the speculator of each worker, when the scheduler starts: the draft
model takes as many passes as tokens are asked for (at length 0 one, which keeps its KV cache in
step), and n-grams are not looked up at length 0. (At other lengths one look-up finds them all.)

Was never run on a GPU: the tests run vLLM's own methods on a CPU around a model that is made up.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.fixes.sampler_check import Executor

logger = logging.getLogger("vllm.paceline.v2_draft_length")

_MARK = "__paceline_draft_length__"


def teach_workers(executor: Executor | None) -> str:
    """Have every worker's drafter heed the length; empty, or why one does not. Never raises."""
    if executor is None:
        return "the workers cannot be reached"
    try:
        answers: list[str] = executor.collective_rpc(teach_worker)
    except Exception as error:
        logger.exception("Paceline: the workers did not take the draft length up")
        return str(error)
    return "; ".join(answer for answer in answers if answer)


def teach_worker(worker: Any) -> str:
    """In the worker: wrap its speculator's `propose`. Empty, or why not. Twice is harmless."""
    misfit = unfit_for("v2_draft_length", check_hooks("v2_draft_length"))
    if misfit:
        return misfit
    from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator
    from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator

    speculator: Any = getattr(worker.model_runner, "speculator", None)
    if speculator is None:
        return ""  # drafting is left to the last stage of a pipeline
    kinds = {StandaloneARSpeculator: _in_fewer_passes, NgramGPUSpeculator: _not_at_length_0}
    wrap = next((kinds[kind] for kind in kinds if isinstance(speculator, kind)), None)
    if wrap is None:
        return f"{type(speculator).__name__} is neither a draft model's nor an n-gram speculator"
    if not hasattr(speculator.propose, _MARK):
        propose = wrap(speculator)
        setattr(propose, _MARK, True)
        speculator.propose = propose
    return ""


def _in_fewer_passes(speculator: Any) -> Any:
    """`propose` with the speculator's own maximum lowered while it runs.

    Returns all columns, as the runner expects; it masks those that were not drafted.
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


def _not_at_length_0(speculator: Any) -> Any:
    """`propose` that hands out its buffer as it is when nothing of it will be verified."""
    stock = speculator.propose

    @functools.wraps(stock)
    def propose(
        input_batch: Any, *arguments: Any, num_speculative_tokens: int | None = None, **named: Any
    ) -> Any:
        if num_speculative_tokens == 0:
            return speculator.drafts[: input_batch.num_reqs]
        return stock(input_batch, *arguments, **named)

    return propose
