"""Score the resting draft model inside vLLM's worker, on text that the target has produced.

The scheduler orders a pass with a step's output (`REPLAY_ORDER`), the report returns with the
drafts (`REPLAY_REPORT`). After such a step has drafted, the draft model computes, for a few
requests, the tokens that it missed while it rested, and its predictions are compared with the text.
Where that needs target probabilities of sampled tokens, they are recorded first, for
`steps_to_record` steps, and the pass follows the last of them. The report's time includes the
recording. The output of the engine does not change: the pass proposes no drafts and uses a random
generator of its own.

"block" verification accepts slightly more than is estimated here.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.executor import Executor
from paceline.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.engine.worker.draft_coverage import DraftCoverage
from paceline.engine.worker.draft_pass import StepRows, read_step_rows
from paceline.engine.worker.probe_reports import REPLAY_ORDER, REPLAY_REPORT, RunnerProbe
from paceline.engine.worker.replay_predictions import score_windows
from paceline.engine.worker.replay_requests import (
    ReplayState,
    WaitingPass,
    describe_requests,
    follow_requests,
)
from paceline.engine.worker.replay_scoring import (
    RECORDED_STEPS,
    choose_windows,
    missing_by_row,
    steps_to_record,
)
from paceline.engine.worker.replay_target_probs import (
    RowProbs,
    probs_before_sampling,
    probs_of_sampled,
)
from paceline.engine.worker.resting_draft import MARK as RESTING_DRAFT_MARK
from paceline.engine.worker.resting_draft import coverage_of, drafter_rests

logger = logging.getLogger("vllm.paceline.replay_scoring")


PROBE = RunnerProbe[ReplayState](
    "replay scoring", report_attribute=REPLAY_REPORT, make_state=ReplayState
)


def apply() -> bool:
    """Register the wrappers for this process's workers; return whether they were registered."""
    return when_model_runner_loads(_wrap_runner)


def workers_have_replay_scoring(executor: Executor | None) -> bool:
    """Return whether every worker can run a replay scoring pass; False without an executor.

    Never raises.
    """
    if executor is None:
        return False
    try:
        answers = executor.collective_rpc(_has_replay_scoring)
    except Exception:
        logger.exception(
            "Paceline: the workers did not answer whether they support replay scoring; it is off"
        )
        return False
    return bool(answers) and all(answers)


def _has_replay_scoring(worker: Any) -> bool:
    """In the worker: return whether the wrappers are installed and the draft model rests.

    False with two vocabularies: the logits alone do not show what a draft would have been.
    """
    runner = worker.model_runner
    return (
        PROBE.is_installed(runner)
        and drafter_rests(runner.vllm_config, runner.kv_cache_config)
        and not runner.speculative_config.use_heterogeneous_vocab
    )


def _wrap_runner() -> None:
    """Wrap the methods in a process that has their module loaded. Idempotent."""
    misfit = unfit_for("replay_scoring", check_hooks("replay_scoring"))
    if misfit:
        logger.warning(
            "Paceline: replay scoring is off, because this vLLM does not fit its hooks: %s", misfit
        )
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    if not hasattr(runner.propose_draft_token_ids, RESTING_DRAFT_MARK):
        return  # the draft model does not rest; `resting_draft` has logged why
    if hasattr(runner.take_draft_token_ids, PROBE.mark):
        return
    runner.propose_draft_token_ids = _score_after(runner.propose_draft_token_ids)
    runner._sample = _keep_target_probs_of(runner._sample)
    runner.take_draft_token_ids = PROBE.reporting(runner.take_draft_token_ids)


def _score_after(propose: Any) -> Any:
    """Wrap the method that proposes drafts: run an ordered pass after it, when it is due."""
    signature = inspect.signature(propose)

    @functools.wraps(propose)
    def propose_and_score(self: Any, *arguments: Any, **named: Any) -> Any:
        scheduler_output = arguments[0] if arguments else named["scheduler_output"]
        max_tokens = getattr(scheduler_output, REPLAY_ORDER, 0)
        if max_tokens == 0 and PROBE.state(self).waiting is None:  # nearly every step
            return propose(self, *arguments, **named)
        given = signature.bind(self, *arguments, **named).arguments
        common = given["common_attn_metadata"]
        rows = read_step_rows(common)
        proposal = propose(self, *arguments, **named)
        is_off = scheduler_output.num_spec_tokens_to_schedule == 0
        report = PROBE.run(self, _record_or_score, common, rows, max_tokens, is_off)
        if report is not None:
            PROBE.send(self, report)
        return proposal

    return propose_and_score


def _keep_target_probs_of(sample: Any) -> Any:
    """Wrap the method that samples: record target probabilities while a pass waits for them."""

    @functools.wraps(sample)
    def sample_and_keep(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        has_drafts = spec_decode_metadata is not None and spec_decode_metadata.max_spec_len > 0
        if has_drafts or PROBE.state(self).waiting is None:  # nearly every step
            return sample(self, logits, spec_decode_metadata)
        probs = PROBE.run(self, _probs_before_sampling, logits)
        output = sample(self, logits, spec_decode_metadata)
        if probs:
            PROBE.run(self, _record, probs, output.sampled_token_ids)
        return output

    return sample_and_keep


def _probs_before_sampling(runner: Any, state: ReplayState, logits: Any) -> RowProbs | None:
    assert state.waiting is not None
    started_s = time.perf_counter()
    probs = probs_before_sampling(runner, state.waiting.request_ids, logits)
    state.seconds += time.perf_counter() - started_s
    return probs


def _record(runner: Any, state: ReplayState, probs: RowProbs, sampled_token_ids: Any) -> None:
    started_s = time.perf_counter()
    state.record(probs_of_sampled(runner, probs, sampled_token_ids))
    state.seconds += time.perf_counter() - started_s


def _record_or_score(
    runner: Any, state: ReplayState, common: Any, rows: StepRows, max_tokens: int, is_off: bool
) -> dict[str, Any] | None:
    """Advance the waiting pass, or one of `max_tokens` tokens that is ordered now, by one step.

    Returns the report of the pass, or None while it waits. `rows` is the step as it was before it
    drafted. `is_off`: the step proposes no drafts. A pass ends its wait as soon as drafts are
    proposed, because target probabilities cannot be recorded any more. An order that comes while a
    pass waits is answered by that pass.
    """
    started_s = time.perf_counter()
    coverage = coverage_of(runner)
    if coverage is None:
        raise RuntimeError("the draft model no longer rests")
    if state.waiting is None:
        max_tokens = min(max_tokens, int(runner.drafter.input_ids.shape[0]))
        chosen = follow_requests(
            runner, state, coverage, rows, max_tokens=max_tokens, is_off=is_off
        )
        state.waiting = WaitingPass(
            [request.request_id for request in chosen],
            max_tokens,
            steps_to_record(chosen, max_tokens) if is_off else 0,
        )
    else:
        state.waiting.steps_left -= 1
    if state.waiting.steps_left > 0 and is_off:
        state.seconds += time.perf_counter() - started_s
        return None
    waiting, state.waiting = state.waiting, None
    report = _score(runner, state, coverage, common, rows, waiting)
    spent_s, state.seconds = state.seconds, 0.0
    return {**report, "seconds": spent_s + time.perf_counter() - started_s}


def _score(
    runner: Any,
    state: ReplayState,
    coverage: DraftCoverage,
    common: Any,
    rows: StepRows,
    due: WaitingPass,
) -> dict[str, Any]:
    """Run the pass that is due; return its report without the time."""
    requests = describe_requests(runner, state, coverage, rows, due.request_ids)
    windows = choose_windows(requests, due.max_tokens)
    drafts: list[tuple[int, int, int]] = []
    if windows:
        drafts = score_windows(runner, coverage, common, rows, requests, windows, state.random)
    state.note_judged(runner.input_batch.req_ids, windows)
    num_missing = 0
    if not drafts and requests:
        replayed = [request.row for request in requests]
        gaps = coverage.find_gaps(rows.block_table[replayed], rows.num_computed[replayed])
        num_missing = int(missing_by_row(gaps, len(replayed)).min())
        if windows and all(request.target_probs is not None for request in requests):
            num_missing += RECORDED_STEPS  # nothing was recorded, for lack of room
    return {
        "judged": tuple(runner.input_batch.req_ids[row] for row, _, _ in drafts),
        "drafted": tuple(drafted for _, drafted, _ in drafts),
        "accepted": tuple(accepted for _, _, accepted in drafts),
        "computed_tokens": sum(window.stop - window.start for window in windows),
        "missing_tokens": num_missing,
    }
