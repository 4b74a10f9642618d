"""Choose the requests that replay scoring follows, and keep what it knows about them.

Where the drafter samples, judging a sampled request needs the target's probabilities of its tokens.
They are recorded only between an order and its pass (`ReplayState.waiting`), for the requests that
the order has chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.engine.worker.draft_coverage import DraftCoverage, Gap
from paceline.engine.worker.draft_pass import StepRows
from paceline.engine.worker.replay_scoring import (
    ReplayCandidate,
    ReplayRequest,
    ReplayWindow,
    choose_requests,
    missing_by_row,
)
from paceline.engine.worker.replay_target_probs import drafts_are_sampled, is_sampled


@dataclass(slots=True)
class _Tracked:
    """What is kept of one request between passes."""

    judged_until: int = 0
    last_pass: int = 0
    """Number of the last pass that judged it; 0 for none."""
    target_probs: dict[int, float] = field(default_factory=dict)
    """The target's probabilities of the tokens it sampled, by position."""


@dataclass(slots=True)
class WaitingPass:
    """An ordered pass, run when target probabilities have been recorded for some steps."""

    request_ids: list[str]
    max_tokens: int
    steps_left: int


@dataclass(slots=True)
class ReplayState:
    """What a model runner keeps between passes."""

    tracked: dict[str, _Tracked] = field(default_factory=dict)
    """Requests chosen so far that were in the batch at the last order, by request id."""
    waiting: WaitingPass | None = None
    seconds: float = 0.0
    """Time spent on the waiting pass so far."""
    num_passes: int = 0
    # Seeded, so that every rank of a tensor-parallel group judges alike.
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def record(self, probs: Iterable[tuple[str, int, float]]) -> None:
        """Keep the target's probability of each (request id, position)."""
        for request_id, position, prob in probs:
            self.tracked[request_id].target_probs[position] = prob

    def note_judged(self, request_ids: Sequence[str], windows: Sequence[ReplayWindow]) -> None:
        """Note what a pass judged, so that no token is judged twice and requests take turns.

        `request_ids` are those of the batch, by row.
        """
        self.num_passes += 1
        for window in windows:
            tracked = self.tracked[request_ids[window.row]]
            tracked.judged_until = max(tracked.judged_until, window.stop)
            if window.judged_from < window.stop:
                tracked.last_pass = self.num_passes
        for tracked in self.tracked.values():
            tracked.target_probs.clear()


def follow_requests(
    runner: Any,
    state: ReplayState,
    coverage: DraftCoverage,
    rows: StepRows,
    *,
    max_tokens: int,
    is_off: bool,
) -> list[ReplayCandidate]:
    """Choose requests for a pass of at most `max_tokens` tokens and keep track of them.

    `is_off`: the step proposes no drafts. Otherwise target probabilities cannot be recorded, and
    requests that need them are not chosen.
    """
    batch = runner.input_batch
    num_rows = len(rows.num_computed)
    request_ids = batch.req_ids[:num_rows]
    state.tracked = {r: state.tracked[r] for r in request_ids if r in state.tracked}
    missing = missing_by_row(coverage.find_gaps(rows.block_table, rows.num_computed), num_rows)
    is_decoding = rows.num_computed >= batch.num_prompt_tokens[:num_rows]
    sampled_drafts = drafts_are_sampled(runner)
    candidates = []
    for row in np.flatnonzero(is_decoding).tolist():
        is_recorded = sampled_drafts and is_sampled(runner, row)
        if is_off or not is_recorded:
            known = state.tracked.get(request_ids[row])
            last_pass = 0 if known is None else known.last_pass
            candidates.append(
                ReplayCandidate(request_ids[row], int(missing[row]), last_pass, is_recorded)
            )
    chosen = choose_requests(candidates, max_tokens)
    for candidate in chosen:
        state.tracked.setdefault(candidate.request_id, _Tracked())
    return chosen


def describe_requests(
    runner: Any,
    state: ReplayState,
    coverage: DraftCoverage,
    rows: StepRows,
    request_ids: Sequence[str],
) -> list[ReplayRequest]:
    """Return those of the requests that are in the batch, in order, as of this step.

    A later one does not miss what an earlier one fills.
    """
    batch = runner.input_batch
    found = [r for r in request_ids if r in batch.req_id_to_index]
    chosen_rows = [batch.req_id_to_index[request_id] for request_id in found]
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
            judged_until=state.tracked[request_id].judged_until,
            target_probs=(
                state.tracked[request_id].target_probs
                if sampled_drafts and is_sampled(runner, row)
                else None
            ),
        )
        for request_id, row in zip(found, chosen_rows, strict=True)
    ]
