"""Replay scoring on recorded texts: what drafts would have had accepted in text that is finished.

The rules are those of `paceline.policy_simulator.engine.replay_scoring`: a pass scores a few
requests, those with the fewest missed tokens first, computes what the draft model missed of them,
and judges the last tokens that it computed. As a verdict it takes the one that was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.governor.recorded_drafts.recordings import MAX_DRAFT_TOKENS, Ints
from paceline.governor.values import ReplayScores
from paceline.policy_simulator.engine.replay_scoring import (
    JUDGED_TOKENS,
    MAX_REQUESTS,
    START_LENGTH,
)


@dataclass(frozen=True, slots=True)
class ScoredText:
    """One pass and its verdicts."""

    num_requests: int
    computed_tokens: int
    missing_tokens: int
    slots: tuple[int, ...]
    """Slot of the request of each draft."""
    drafts: tuple[tuple[int, int], ...]
    """(tokens scored, tokens accepted) of each draft."""

    def report(self, seconds: float, judged: tuple[str, ...]) -> ReplayScores:
        """The report on this pass, which took `seconds`; `judged` are the ids of the slots."""
        return ReplayScores(
            drafted=tuple(drafted for drafted, _ in self.drafts),
            accepted=tuple(accepted for _, accepted in self.drafts),
            computed_tokens=self.computed_tokens,
            missing_tokens=self.missing_tokens,
            seconds=seconds,
            judged=judged,
        )


def score_finished_text(
    num_accepted: Ints, positions: Ints, missed: Ints, max_tokens: int
) -> ScoredText:
    """Compute up to `max_tokens` tokens and score drafts of the full length.

    `num_accepted` has shape (num_requests, max_positions): the recorded drafts of each request's
    text, which has come to its entry of `positions`. Reduces `missed`, (num_requests,).
    """
    chosen = np.argsort(missed, kind="stable")[:MAX_REQUESTS].tolist()
    room, num_requests = max_tokens, 0
    slots: list[int] = []
    drafts: list[tuple[int, int]] = []
    for slot in chosen:
        stop, num_missed = int(positions[slot]), int(missed[slot])
        if num_missed:
            start = stop - num_missed
            stop = start + min(num_missed, room)
            missed[slot] = num_missed - (stop - start)
        else:
            start = max(stop - min(max_tokens // len(chosen), room), 0)
        if start < stop:
            num_requests += 1
            room -= stop - start
        found = _score(num_accepted[slot], max(start, stop - JUDGED_TOKENS, 0), stop)
        slots += [slot] * len(found)
        drafts += found
    missing = 0 if drafts else int(np.min(missed[chosen]))
    return ScoredText(num_requests, max_tokens - room, missing, tuple(slots), tuple(drafts))


def _score(num_accepted: Ints, start: int, stop: int) -> list[tuple[int, int]]:
    """Drafts within the text from `start` to `stop`, begun where drafts of `START_LENGTH` tokens
    would have begun. The end of the text cuts a draft short."""
    drafts = []
    begin = start
    while begin < stop:
        accepted, left = int(num_accepted[begin]), stop - begin
        drafts.append((left, left) if accepted >= left else (MAX_DRAFT_TOKENS, accepted))
        begin += min(accepted, left, START_LENGTH) + 1
    return drafts
