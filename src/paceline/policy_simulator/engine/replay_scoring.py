"""Replay scoring in the simulated engine: the draft model scores text the target has produced.

The counterpart of `paceline.engine.worker.replay_scoring`. It scores a few requests: those that one
pass can complete take turns, the others follow, fewest missed tokens first. One pass computes the
tokens of these that the draft model missed while it rested, oldest first; for a request with none
missing, it computes the last output again. The last computed tokens of each are compared with the
tokens that followed, which shows whether drafts would have been accepted. A token that follows a
prompt token is not output and is not scored, unless that prompt token is the last. As for real
drafts, the position's own draw decides, with the truth in force when the token was produced.

Where no tokens are missing, output that was scored before is scored again; the real engine leaves
it out, so it scores fewer drafts when little output came since the last pass. Target probabilities
need not be recorded here, as if all requests or all drafts were greedy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.governor.values import ReplayScores
from paceline.policy_simulator.engine.batch import Ints, RequestBatch

MAX_REQUESTS = 4
JUDGED_TOKENS = 64
START_LENGTH = 2
"""As in the engine."""


@dataclass(frozen=True, slots=True)
class SimulatedReplay:
    """One pass and its result."""

    num_requests: int
    """Requests with tokens computed in the pass."""
    computed_tokens: int
    missing_tokens: int
    """Fewest tokens still missing of any request; 0 when drafts were scored."""
    drafts: tuple[tuple[int, int], ...]
    """(tokens scored, tokens accepted) of each draft."""

    def report(self, seconds: float) -> ReplayScores:
        """The report to the policy on a pass that took `seconds`."""
        return ReplayScores(
            drafted=tuple(drafted for drafted, _ in self.drafts),
            accepted=tuple(accepted for _, accepted in self.drafts),
            computed_tokens=self.computed_tokens,
            missing_tokens=self.missing_tokens,
            seconds=seconds,
        )


def score_finished_text(
    batch: RequestBatch, running: Ints, max_tokens: int, depth: int
) -> SimulatedReplay:
    """Compute up to `max_tokens` tokens of the batch's `running` requests, and score drafts of
    `depth` tokens. Reduces the requests' missed tokens."""
    chosen = _choose(batch, running, max_tokens)
    number = int(batch.last_replay.max(initial=0)) + 1
    room, num_requests = max_tokens, 0
    drafts: list[tuple[int, int]] = []
    for slot in chosen:
        # The range of predicted tokens, counted in output tokens: negative in the prompt.
        stop, missed = int(batch.position[slot]), int(batch.missed[slot])
        if missed:
            start = stop - missed
            stop = start + min(missed, room)
            batch.missed[slot] = missed - (stop - start)
        else:
            start = max(stop - min(max_tokens // len(chosen), room), 0)
        if start < stop:
            num_requests += 1
            room -= stop - start
        first = max(start, stop - JUDGED_TOKENS, 0)
        if first < stop:
            drafts += _score(batch, slot, first, stop, depth)
            batch.last_replay[slot] = number
    missing = [] if drafts else batch.missed[chosen].tolist()
    return SimulatedReplay(num_requests, max_tokens - room, min(missing, default=0), tuple(drafts))


def _choose(batch: RequestBatch, running: Ints, max_tokens: int) -> list[int]:
    """The slots of the decoding requests to score: of those that a pass completes, the ones judged
    longest ago; then those with the fewest missed tokens."""
    decoding = running[batch.position[running] > 0]
    missed = batch.missed[decoding]
    last_replay = np.where(missed > max_tokens, np.iinfo(np.int64).max, batch.last_replay[decoding])
    order = np.lexsort((missed, last_replay))
    slots: list[int] = decoding[order[:MAX_REQUESTS]].tolist()
    return slots


def _score(
    batch: RequestBatch, slot: int, start: int, stop: int, depth: int
) -> list[tuple[int, int]]:
    """The drafts that output tokens [start, stop) correspond to, begun where drafts of
    `START_LENGTH` tokens would have begun.

    A draft ends at its first miss, where the target's own token takes its place, or at its full
    depth. The draft that the end of the text cuts short counts as far as it was accepted.
    """
    luck = batch.past_luck(slot, start, stop).tolist()
    drafts = []
    begin = 0
    while begin < len(luck):
        draws = luck[begin : begin + depth]
        missed_at = (
            i
            for i, draw in enumerate(draws)
            if not draw < batch.logits_at(slot, start + begin + i)[i]
        )
        accepted = next(missed_at, len(draws))
        drafts.append((depth if accepted < len(draws) else accepted, accepted))
        begin += min(accepted, START_LENGTH) + 1
    return drafts
