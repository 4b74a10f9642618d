"""Score the resting draft model inside vLLM's worker, on text that the target has produced.

The scheduler orders a pass with a step's output (`REPLAY_ORDER`), the report returns with the
drafts (`REPLAY_REPORT`). After such a step has drafted, the draft model computes, for a few
requests, the tokens that it missed while it rested, and its predictions are compared with the text.
The output of the engine does not change: the pass proposes no drafts and uses a random generator of
its own.

"block" verification accepts slightly more than is estimated here.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.executor import Executor
from paceline.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.engine.worker.draft_coverage import DraftCoverage, Gap
from paceline.engine.worker.draft_pass import StepRows, read_step_rows
from paceline.engine.worker.probe_reports import REPLAY_ORDER, REPLAY_REPORT, RunnerProbe
from paceline.engine.worker.replay_predictions import score_windows
from paceline.engine.worker.replay_scoring import (
    ReplayRequest,
    ReplayWindow,
    choose_requests,
    choose_windows,
    missing_by_row,
)
from paceline.engine.worker.replay_target_probs import (
    RowProbs,
    drafts_are_sampled,
    is_sampled,
    probs_before_sampling,
    probs_of_sampled,
)
from paceline.engine.worker.resting_draft import MARK as RESTING_DRAFT_MARK
from paceline.engine.worker.resting_draft import coverage_of, drafter_rests

logger = logging.getLogger("vllm.paceline.replay_scoring")


@dataclass(slots=True)
class _Tracked:
    """What is kept of one replayed request between passes."""

    judged_until: int = 0
    target_probs: dict[int, float] = field(default_factory=dict)
    """The target's probabilities of the tokens it sampled, by position."""


@dataclass(slots=True)
class _State:
    """What a model runner keeps between passes."""

    requests: dict[str, _Tracked] = field(default_factory=dict)
    """The replayed requests, by request id."""
    # Seeded, so that every rank of a tensor-parallel group judges alike.
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


PROBE = RunnerProbe[_State]("replay scoring", report_attribute=REPLAY_REPORT, make_state=_State)


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
    """Wrap the method that proposes drafts: run an ordered pass after it."""
    signature = inspect.signature(propose)

    @functools.wraps(propose)
    def propose_and_score(self: Any, *arguments: Any, **named: Any) -> Any:
        scheduler_output = arguments[0] if arguments else named["scheduler_output"]
        max_tokens = getattr(scheduler_output, REPLAY_ORDER, 0)
        if max_tokens == 0:  # nearly every step
            return propose(self, *arguments, **named)
        given = signature.bind(self, *arguments, **named).arguments
        common = given["common_attn_metadata"]
        rows = read_step_rows(common)
        proposal = propose(self, *arguments, **named)
        report = PROBE.run(self, _score, common, rows, max_tokens)
        if report is not None:
            PROBE.send(self, report)
        return proposal

    return propose_and_score


def _keep_target_probs_of(sample: Any) -> Any:
    """Wrap the method that samples: keep target probabilities of replayed requests."""

    @functools.wraps(sample)
    def sample_and_keep(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        has_drafts = spec_decode_metadata is not None and spec_decode_metadata.max_spec_len > 0
        if has_drafts or not PROBE.state(self).requests:  # always empty without speculation
            return sample(self, logits, spec_decode_metadata)
        probs = PROBE.run(self, _probs_before_sampling, logits)
        output = sample(self, logits, spec_decode_metadata)
        if probs:
            PROBE.run(self, _keep_target_probs, probs, output.sampled_token_ids)
        return output

    return sample_and_keep


def _probs_before_sampling(runner: Any, state: _State, logits: Any) -> RowProbs | None:
    return probs_before_sampling(runner, state.requests, logits)


def _keep_target_probs(runner: Any, state: _State, probs: RowProbs, sampled_token_ids: Any) -> None:
    for request_id, position, prob in probs_of_sampled(runner, probs, sampled_token_ids):
        state.requests[request_id].target_probs[position] = prob


def _score(
    runner: Any, state: _State, common: Any, rows: StepRows, max_tokens: int
) -> dict[str, Any]:
    """Choose requests and windows, score them, return the report.

    `rows` is the step as it was before it drafted; the pass computes at most `max_tokens` tokens.
    """
    started_s = time.perf_counter()
    coverage = coverage_of(runner)
    if coverage is None:
        raise RuntimeError("the draft model no longer rests")
    _choose_requests(runner, state, coverage, rows)
    requests = _replay_requests(runner, state, coverage, rows)
    windows = choose_windows(requests, min(max_tokens, int(runner.drafter.input_ids.shape[0])))
    drafts = []
    if windows:
        drafts = score_windows(runner, coverage, common, rows, requests, windows, state.random)
    _forget_judged(runner, state, windows)
    num_missing = 0
    if not drafts and requests:
        replayed = [request.row for request in requests]
        gaps = coverage.find_gaps(rows.block_table[replayed], rows.num_computed[replayed])
        num_missing = int(missing_by_row(gaps, len(replayed)).min())
    return {
        "drafted": tuple(drafted for drafted, _ in drafts),
        "accepted": tuple(accepted for _, accepted in drafts),
        "computed_tokens": sum(window.stop - window.start for window in windows),
        "missing_tokens": num_missing,
        "seconds": time.perf_counter() - started_s,
    }


def _forget_judged(runner: Any, state: _State, windows: Sequence[ReplayWindow]) -> None:
    """Note what was judged, so that no token is judged twice."""
    for window in windows:
        request = state.requests[runner.input_batch.req_ids[window.row]]
        request.judged_until = max(request.judged_until, window.stop)
        for position in [known for known in request.target_probs if known <= window.stop]:
            del request.target_probs[position]


def _choose_requests(runner: Any, state: _State, coverage: DraftCoverage, rows: StepRows) -> None:
    num_rows = len(rows.num_computed)
    num_prompt = runner.input_batch.num_prompt_tokens[:num_rows]
    missing = missing_by_row(coverage.find_gaps(rows.block_table, rows.num_computed), num_rows)
    chosen = choose_requests(
        runner.input_batch.req_ids[:num_rows],
        (rows.num_computed >= num_prompt).tolist(),
        missing,
    )
    state.requests = {
        request_id: state.requests.get(request_id, _Tracked()) for request_id in chosen
    }


def _replay_requests(
    runner: Any, state: _State, coverage: DraftCoverage, rows: StepRows
) -> list[ReplayRequest]:
    """Return the chosen requests, in order; a later one does not miss what an earlier one fills."""
    batch = runner.input_batch
    chosen_rows = [batch.req_id_to_index[request_id] for request_id in state.requests]
    gaps = {
        chosen_rows[gap.row]: Gap(chosen_rows[gap.row], gap.start, gap.stop)
        for gap in coverage.find_gaps(rows.block_table[chosen_rows], rows.num_computed[chosen_rows])
    }
    sampled_drafts = drafts_are_sampled(runner)
    return [
        ReplayRequest(
            row=row,
            num_prompt=int(batch.num_prompt_tokens[row]),
            num_computed=int(rows.num_computed[row]),
            missing=gaps.get(row),
            judged_until=tracked.judged_until,
            target_probs=(
                tracked.target_probs if sampled_drafts and is_sampled(runner, row) else None
            ),
        )
        for row, tracked in zip(chosen_rows, state.requests.values(), strict=True)
    ]
