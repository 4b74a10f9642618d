"""How is the draft model judged in hindsight inside vLLM's worker?

The scheduler's order comes with the step's output, the report goes back with the drafts
(`hindsight.ORDER`, `REPORT`); both are attributes that vLLM does not know. When such a step is done
drafting, the draft model computes what it had missed of a few requests while it rested, and its
predictions are held against the tokens that came. Outputs do not change: nothing is drafted here,
and what is drawn at random comes from a generator of its own.

Where the drafter samples ("draft_sample_method": "probabilistic") and the request does too, the
target's chance of each token is needed; it is kept when the token is sampled, in steps without
drafts, for the requests that are followed. That is the chance at the request's temperature, before
top-k, top-p, min-p and penalties: evidence for the governor, which losslessness does not rest on.
"block" verification accepts a little more than is found here.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.fixes.sampler_check import Executor
from paceline.engine.worker.draft_coverage import DraftCoverage, Gap, Ints
from paceline.engine.worker.draft_pass import StepRows, compute, rows_of
from paceline.engine.worker.replay_scoring import (
    ORDER,
    REPORT,
    Followed,
    ReplayWindow,
    choose_looks,
    follow,
    missing_by_row,
    verdicts,
    would_accept,
)
from paceline.engine.worker.resting_draft import MARK as RESTS
from paceline.engine.worker.resting_draft import coverage_of, rests
from paceline.engine.worker.worker_hook import call_in_workers

logger = logging.getLogger("vllm.paceline.replay_scoring")

_T = TypeVar("_T")
_MARK = "__paceline_replay_scoring__"
_STATE = "_paceline_replay_scoring"
# Rows of logits at a time: 40 MB at a vocabulary of 150,000 and 4 bytes.
_MAX_LOGITS = 64
# vLLM's own line between greedy and sampled (`_SAMPLING_EPS`).
_GREEDY_BELOW = 1e-5


@dataclass(slots=True)
class _Request:
    """What is kept of a request that is followed."""

    judged_until: int = 0
    chances: dict[int, float] = field(default_factory=dict)
    """The target's chances of the tokens it sampled, by position."""


@dataclass(slots=True)
class _State:
    """What a worker's runner remembers between orders."""

    followed: dict[str, _Request] = field(default_factory=dict)
    report: dict[str, Any] | None = None
    has_failed: bool = False
    # Seeded: every rank of a tensor-parallel group judges alike.
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))


def apply() -> bool:
    """Arrange for the wrappers in this process's workers; True when it is arranged."""
    return call_in_workers(_wrap_runner)


def workers_have_replay_scoring(executor: Executor | None) -> bool:
    """Whether every worker can be asked to look back. Never raises; without an executor, no."""
    if executor is None:
        return False
    try:
        answers = executor.collective_rpc(_has_replay_scoring)
    except Exception:
        logger.exception("Paceline: the workers do not say whether they judge in hindsight: no")
        return False
    return bool(answers) and all(answers)


def _has_replay_scoring(worker: Any) -> bool:
    """In the worker: the wrappers are there, and the draft model rests.

    Not with two vocabularies: what a draft would have been is not told by the logits alone.
    """
    runner = worker.model_runner
    return (
        hasattr(getattr(type(runner), "take_draft_token_ids", None), _MARK)
        and rests(runner.vllm_config, runner.kv_cache_config)
        and not runner.speculative_config.use_heterogeneous_vocab
    )


def _wrap_runner() -> None:
    """Wrap the methods in a process that has their module loaded. Twice is harmless."""
    misfit = unfit_for("replay_scoring", check_hooks("replay_scoring"))
    if misfit:
        logger.warning("Paceline: drafts are not judged in hindsight: %s", misfit)
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    if not hasattr(runner.propose_draft_token_ids, RESTS):
        return  # there is nothing to look back on; `resting_draft` has said why
    if hasattr(runner.take_draft_token_ids, _MARK):
        return
    runner.propose_draft_token_ids = _look_back_after(runner.propose_draft_token_ids)
    runner._sample = _note_chances_in(runner._sample)
    runner.take_draft_token_ids = _report_with(runner.take_draft_token_ids)


def _look_back_after(propose: Any) -> Any:
    """Wrap the method that proposes drafts: when they are made, look back if it was ordered."""
    signature = inspect.signature(propose)

    @functools.wraps(propose)
    def propose_and_look_back(self: Any, *arguments: Any, **named: Any) -> Any:
        scheduler_output = arguments[0] if arguments else named["scheduler_output"]
        max_tokens = getattr(scheduler_output, ORDER, 0)
        if max_tokens == 0:  # nearly every step
            return propose(self, *arguments, **named)
        given = signature.bind(self, *arguments, **named).arguments
        common = given["common_attn_metadata"]
        rows = rows_of(common)
        proposal = propose(self, *arguments, **named)
        _guarded(self, _look_back, common, rows, max_tokens)
        return proposal

    return propose_and_look_back


def _note_chances_in(sample: Any) -> Any:
    """Wrap the method that samples: keep the target's chances of what followed requests sample."""

    @functools.wraps(sample)
    def sample_and_note(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        has_drafts = spec_decode_metadata is not None and spec_decode_metadata.max_spec_len > 0
        if has_drafts or not _state_of(self).followed:  # nobody is, without speculation
            return sample(self, logits, spec_decode_metadata)
        # The sampler changes the logits in place.
        probs = _guarded(self, _followed_probs, logits)
        output = sample(self, logits, spec_decode_metadata)
        if probs:
            _guarded(self, _note_chances, probs, output.sampled_token_ids)
        return output

    return sample_and_note


def _followed_probs(runner: Any, state: _State, logits: Any) -> tuple[list[int], Any] | None:
    """The rows of followed requests that keep a sampled token now, and what it is drawn from."""
    if not _drafts_by_chance(runner):
        return None
    batch = runner.input_batch
    found = (batch.req_id_to_index.get(request_id) for request_id in state.followed)
    discarded = runner.discard_request_mask.np
    rows = [r for r in found if r is not None and _samples(runner, r) and not discarded[r]]
    return (rows, _probs(logits[rows], batch.temperature_cpu[rows])) if rows else None


def _note_chances(
    runner: Any, state: _State, probs: tuple[list[int], Any], sampled_token_ids: Any
) -> None:
    rows, of_rows = probs
    chances = of_rows.gather(1, sampled_token_ids[rows, :1].long())[:, 0].tolist()
    for row, chance in zip(rows, chances, strict=True):
        position = int(runner.input_batch.num_tokens_no_spec[row])
        state.followed[runner.input_batch.req_ids[row]].chances[position] = chance


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


def _guarded(runner: Any, call: Callable[..., _T], *arguments: Any) -> _T | None:
    """Call with the runner, its state and `arguments`. After an error there is no hindsight more.

    It is evidence only: vLLM serves on, and the scheduler is told with the next report.
    """
    state = _state_of(runner)
    if state.has_failed:
        return None
    try:
        return call(runner, state, *arguments)
    except Exception as error:
        logger.exception("Paceline: drafts are judged in hindsight no more")
        setattr(runner, _STATE, _State(has_failed=True, report={"failed": str(error)}))
        return None


def _look_back(runner: Any, state: _State, common: Any, rows: StepRows, max_tokens: int) -> None:
    """Follow, compute, judge; the report goes with the next drafts.

    `rows` is the step's from before it drafted, `max_tokens` the most to compute.
    """
    started_s = time.perf_counter()
    coverage = coverage_of(runner)
    if coverage is None:
        raise RuntimeError("the draft model rests no more")
    _follow(runner, state, coverage, rows)
    requests = _followed_rows(runner, state, coverage, rows)
    looks = choose_looks(requests, min(max_tokens, int(runner.drafter.input_ids.shape[0])))
    drafts = _judge(runner, state, coverage, common, rows, requests, looks) if looks else []
    _forget_judged(runner, state, looks)
    lacking = 0
    if not drafts and requests:
        followed = [request.row for request in requests]
        gaps = coverage.gaps(rows.block_table[followed], rows.num_computed[followed])
        lacking = int(missing_by_row(gaps, len(followed)).min())
    state.report = {
        "drafted": tuple(drafted for drafted, _ in drafts),
        "accepted": tuple(accepted for _, accepted in drafts),
        "computed_tokens": sum(look.stop - look.start for look in looks),
        "missing_tokens": lacking,
        "seconds": time.perf_counter() - started_s,
    }


def _forget_judged(runner: Any, state: _State, looks: Sequence[ReplayWindow]) -> None:
    """No token is judged twice."""
    for look in looks:
        request = state.followed[runner.input_batch.req_ids[look.row]]
        request.judged_until = max(request.judged_until, look.stop)
        for position in [known for known in request.chances if known <= look.stop]:
            del request.chances[position]


def _follow(runner: Any, state: _State, coverage: DraftCoverage, rows: StepRows) -> None:
    num_rows = len(rows.num_computed)
    num_prompt = runner.input_batch.num_prompt_tokens[:num_rows]
    missing = missing_by_row(coverage.gaps(rows.block_table, rows.num_computed), num_rows)
    chosen = follow(
        runner.input_batch.req_ids[:num_rows],
        (rows.num_computed >= num_prompt).tolist(),
        missing,
    )
    state.followed = {
        request_id: state.followed.get(request_id, _Request()) for request_id in chosen
    }


def _followed_rows(
    runner: Any, state: _State, coverage: DraftCoverage, rows: StepRows
) -> list[Followed]:
    """The followed requests, in order; what an earlier one fills, a later one does not miss."""
    batch = runner.input_batch
    of_request = [batch.req_id_to_index[request_id] for request_id in state.followed]
    gaps = {
        of_request[gap.row]: Gap(of_request[gap.row], gap.start, gap.stop)
        for gap in coverage.gaps(rows.block_table[of_request], rows.num_computed[of_request])
    }
    by_chance = _drafts_by_chance(runner)
    return [
        Followed(
            row=row,
            num_prompt=int(batch.num_prompt_tokens[row]),
            num_computed=int(rows.num_computed[row]),
            missing=gaps.get(row),
            judged_until=request.judged_until,
            chances=request.chances if by_chance and _samples(runner, row) else None,
        )
        for row, request in zip(of_request, state.followed.values(), strict=True)
    ]


def _judge(
    runner: Any,
    state: _State,
    coverage: DraftCoverage,
    common: Any,
    rows: StepRows,
    requests: Sequence[Followed],
    looks: Sequence[ReplayWindow],
) -> list[tuple[int, int]]:
    """Run the draft model over the looks; the drafts it would have made where they are judged."""
    slots, hidden_states = compute(
        runner, common, rows, [Gap(look.row, look.start, look.stop) for look in looks]
    )
    coverage.compute(slots)
    is_judged = np.concatenate(
        [np.arange(look.start, look.stop) >= look.judged_from for look in looks]
    )
    indices = np.flatnonzero(is_judged)
    if not indices.size:
        return []
    lengths = [look.stop - look.judged_from for look in looks]
    of_token = np.repeat([look.row for look in looks], lengths)
    positions = np.concatenate([np.arange(look.judged_from, look.stop) for look in looks])
    came = runner.input_batch.token_ids_cpu[of_token, positions + 1]
    best, probs = _predict(runner, hidden_states, indices, came, of_token)
    chances_of = {request.row: request.chances for request in requests}
    matches = []
    for i, (row, position) in enumerate(zip(of_token.tolist(), positions.tolist(), strict=True)):
        chances = chances_of[row]
        if chances is None:
            matches.append(bool(best[i] == came[i]))
        else:
            matches.append(
                would_accept(float(probs[i]), chances[position + 1], state.random.random())
            )
    drafts = []
    start = 0
    for length in lengths:
        drafts += verdicts(matches[start : start + length], runner.num_spec_tokens)
        start += length
    return drafts


def _predict(
    runner: Any, hidden_states: Any, indices: Ints, came: Ints, of_token: Ints
) -> tuple[Ints, Any]:
    """The draft model's best token at each index, and its probability of the one that came.

    Both (num_judged,), the latter as vLLM draws drafts: at the request's temperature.
    """
    import torch

    best, probs = [], []
    for first in range(0, len(indices), _MAX_LOGITS):
        part = slice(first, first + _MAX_LOGITS)
        logits = runner.drafter.model.compute_logits(hidden_states[torch.from_numpy(indices[part])])
        best.append(logits.argmax(dim=-1).numpy())
        if _drafts_by_chance(runner):
            temperatures = runner.input_batch.temperature_cpu[of_token[part]]
            named = torch.from_numpy(came[part].astype(np.int64))[:, None]
            probs.append(_probs(logits, temperatures).gather(1, named)[:, 0].numpy())
    return np.concatenate(best), np.concatenate(probs) if probs else None


def _probs(logits: Any, temperatures: Any) -> Any:
    """Softmax at each row's temperature, in a tensor of its own; greedy rows at temperature 1."""
    import torch

    temperatures = torch.from_numpy(np.where(temperatures < _GREEDY_BELOW, 1.0, temperatures))
    return (logits.float() / temperatures[:, None]).softmax(dim=-1)


def _samples(runner: Any, row: int) -> bool:
    return bool(runner.input_batch.temperature_cpu[row] >= _GREEDY_BELOW)


def _drafts_by_chance(runner: Any) -> bool:
    """Whether drafts are drawn from the drafter's distribution, and verified against it."""
    speculative = runner.speculative_config
    methods = (speculative.draft_sample_method, speculative.rejection_sample_method)
    return methods == ("probabilistic", "standard")
