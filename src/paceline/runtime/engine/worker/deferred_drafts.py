"""Hand over the tokens of a step before its drafts are made.

vLLM's worker drafts before it returns the tokens of a step, so each of them, the first one too,
waits for the draft model. The engine sends them to the client as soon as it has them, and then asks
the worker for the drafts (`EngineCore.post_step`). So the worker drafts when it is asked.

Where the draft model rests (`resting_draft`): under synchronous scheduling on CPUs. Between the
tokens and the drafts of a step nothing else runs in the workers.
"""

from __future__ import annotations

import functools
from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers
from paceline.runtime.engine.worker.resting_draft import drafter_rests

_DEFERS = "_paceline_defers_drafts"
_DEFERRED = "_paceline_deferred_drafts"
"""On the runner, from the tokens of a step until its drafts: a function that drafts."""


def _defer(
    stock: Any,
    runner: Any,
    scheduler_output: Any,
    sampled_token_ids: Any,
    *others: Any,
    **named: Any,
) -> Any:
    """Note what is to be drafted, and propose nothing yet.

    Tokens in a list are those that the scheduler will shorten where an answer ends.
    """
    propose = functools.partial(
        stock, runner, scheduler_output, sampled_token_ids, *others, **named
    )
    if not _defers(runner) or isinstance(sampled_token_ids, list):
        return propose()

    def draft() -> None:
        runner._draft_token_ids = propose()
        runner._copy_draft_token_ids_to_cpu(scheduler_output)

    setattr(runner, _DEFERRED, draft)
    # A list: vLLM would copy even an empty tensor to the CPU.
    return [[] for _ in runner.input_batch.req_ids]


def _defers(runner: Any) -> bool:
    """Whether this runner's drafts wait: by the configuration, so that all ranks agree."""
    if not hasattr(runner, _DEFERS):
        setattr(runner, _DEFERS, drafter_rests(runner.vllm_config, runner.kv_cache_config))
    return bool(getattr(runner, _DEFERS))


def _draft_and_take(stock: Any, runner: Any) -> Any:
    """Draft, if that was deferred, and return the drafts."""
    draft = vars(runner).pop(_DEFERRED, None)
    if draft is not None:
        import torch

        with torch.inference_mode():
            draft()
    return stock(runner)


WRAPPERS = Wrappers(
    "deferred_drafts",
    {
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.propose_draft_token_ids": _defer,
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.take_draft_token_ids": _draft_and_take,
    },
    otherwise="Tokens wait for the draft model.",
)
"""To be registered last: these belong outside the wrappers of the other parts."""
