"""How does vLLM's worker tell whether a drafter's first token came, where nothing is drafted?

The scheduler's order comes with the step's output, the verdicts go back with the drafts
(`first_token.ORDER`, `REPORT`); both are attributes that vLLM does not know. In an ordered step the
drafter is asked for one token, which is kept here and not handed on; the next step's samples say
whether it came. Outputs do not change.

Under Model Runner V1 and synchronous scheduling, for drafters that keep up at length 0, make one
draft token after the other, and take the likeliest: how often two draws agree would understate how
often a draft is accepted.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.fixes.sampler_check import Executor
from paceline.engine.scheduler.first_token_schedule import ORDER, REPORT
from paceline.engine.worker.resting_draft import rests
from paceline.engine.worker.worker_hook import call_in_workers

logger = logging.getLogger("vllm.paceline.first_token")

_MARK = "__paceline_first_token__"
_STATE = "_paceline_first_token"
_KEEPS_UP = ("eagle", "eagle3", "mtp", "draft_model")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The first token that would have been drafted after a request's text."""

    num_tokens: int
    """Tokens of the text, without the one sampled in that step."""
    token_id: int


@dataclass(slots=True)
class _State:
    """What a worker's runner remembers between steps."""

    kept: dict[str, _Kept] = field(default_factory=dict)
    report: dict[str, Any] | None = None
    has_failed: bool = False


def apply() -> bool:
    """Arrange for the wrappers in this process's workers; True when it is arranged."""
    return call_in_workers(_wrap_runner)


def head_fraction_of_workers(executor: Executor | None) -> float | None:
    """The size of the drafter's output layer, as a share of what the target's weights take.

    None where the workers cannot tell first tokens. Never raises.
    """
    if executor is None:
        return None
    try:
        answers = executor.collective_rpc(_head_fraction)
    except Exception:
        logger.exception("Paceline: the workers do not say whether they tell first tokens: no")
        return None
    return None if not answers or None in answers else max(answers)


def _head_fraction(worker: Any) -> float | None:
    """In the worker; None unless the wrappers are there and the drafter keeps up."""
    runner = worker.model_runner
    config = runner.vllm_config
    speculative = config.speculative_config
    if (
        not hasattr(getattr(type(runner), "take_draft_token_ids", None), _MARK)
        or speculative.method not in _KEEPS_UP
        or speculative.parallel_drafting
        or speculative.draft_sample_method != "greedy"
        or config.scheduler_config.async_scheduling
        or rests(config, runner.kv_cache_config)
    ):
        return None
    target_bytes = sum(weights.nbytes for weights in runner.model.parameters())
    draft = speculative.draft_model_config
    vocabulary = getattr(draft.hf_config, "draft_vocab_size", None) or draft.get_vocab_size()
    head_bytes = vocabulary * draft.get_hidden_size() * draft.dtype.itemsize
    return float(head_bytes / (head_bytes + target_bytes))


def _wrap_runner() -> None:
    """Wrap the methods in a process that has their module loaded. Twice is harmless."""
    misfit = unfit_for("first_token", check_hooks("first_token"))
    if misfit:
        logger.warning("Paceline: first tokens are not judged at draft length 0: %s", misfit)
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    if hasattr(runner.take_draft_token_ids, _MARK):
        return
    runner.propose_draft_token_ids = _propose_one_when_ordered(runner.propose_draft_token_ids)
    runner.take_draft_token_ids = _report_with(runner.take_draft_token_ids)


def _propose_one_when_ordered(propose: Any) -> Any:
    """Wrap the method that proposes drafts, which vLLM calls once a step with what was sampled."""

    @functools.wraps(propose)
    def propose_and_keep(
        self: Any, scheduler_output: Any, sampled_token_ids: Any, *arguments: Any, **named: Any
    ) -> Any:
        state = _state_of(self)
        if state.kept:
            _guarded(self, _judge, sampled_token_ids)
        is_off = scheduler_output.num_spec_tokens_to_schedule == 0
        # Whoever failed still does as ordered: other ranks wait for it in the output layer.
        if not is_off or not getattr(scheduler_output, ORDER, False):
            return propose(self, scheduler_output, sampled_token_ids, *arguments, **named)
        scheduler_output.num_spec_tokens_to_schedule = 1
        try:
            proposal = propose(self, scheduler_output, sampled_token_ids, *arguments, **named)
        finally:
            scheduler_output.num_spec_tokens_to_schedule = 0
        self._draft_probs = None
        self._draft_prob_req_ids = None
        if isinstance(proposal, list):  # nothing could be proposed
            return proposal
        _guarded(self, _keep, proposal)
        return proposal[:, :0]

    return propose_and_keep


def _keep(runner: Any, state: _State, proposal: Any) -> None:
    """Note the first token of every request that sampled in this step. `proposal` is (rows, 1)."""
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np
    for row, (token_id,) in enumerate(proposal.tolist()):
        if not discarded[row]:
            state.kept[batch.req_ids[row]] = _Kept(int(batch.num_tokens_no_spec[row]), token_id)


def _judge(runner: Any, state: _State, sampled_token_ids: Any) -> None:
    """Hold what was kept against what came; the report goes with the next drafts.

    A request that did not make its next token in this very step is left out.
    """
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np
    kept, state.kept = state.kept, {}
    verdicts = []
    for request_id, first in kept.items():
        row = batch.req_id_to_index.get(request_id)
        if row is None or discarded[row]:
            continue
        if int(batch.num_tokens_no_spec[row]) == first.num_tokens + 1:
            verdicts.append(int(int(sampled_token_ids[row][0]) == first.token_id))
    state.report = {"verdicts": tuple(verdicts)}


def _report_with(take: Any) -> Any:
    """Wrap the method that hands the drafts to the scheduler: a report goes with them."""

    @functools.wraps(take)
    def take_draft_token_ids(self: Any) -> Any:
        drafts = take(self)
        state = _state_of(self)
        if drafts is not None and state.report is not None:
            setattr(drafts, REPORT, state.report)
            state.report = None
        return drafts

    setattr(take_draft_token_ids, _MARK, True)
    return take_draft_token_ids


def _state_of(runner: Any) -> _State:
    if not hasattr(runner, _STATE):
        setattr(runner, _STATE, _State())
    state: _State = getattr(runner, _STATE)
    return state


def _guarded(runner: Any, call: Callable[..., None], argument: Any) -> None:
    """Call with the runner, its state and `argument`. After an error nothing is judged any more.

    It is evidence only: vLLM serves on, and the scheduler is told with the next report.
    """
    state = _state_of(runner)
    if state.has_failed:
        return
    try:
        call(runner, state, argument)
    except Exception as error:
        logger.exception("Paceline: first tokens are judged no more")
        setattr(runner, _STATE, _State(has_failed=True, report={"failed": str(error)}))
