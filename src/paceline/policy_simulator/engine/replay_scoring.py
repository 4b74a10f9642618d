"""What does a draft model see when it looks back on text that the target has made?

The counterpart of `paceline.engine.worker.replay_scoring`. Looked at are the few requests of which the draft
model misses the least. One pass computes what it missed of them while it rested, oldest first; of a
request that it has kept up with, the last output. The last of the tokens computed of each are held
against those that came after them, which says whether drafts would have been accepted; what comes
after a token of the prompt is no output and is not judged, unless it is the last. As real drafts
are, these are decided by the position's own draw, and by the truth that was in force when the token
was made.

Where the drafter has kept up, output is judged again though it was before; the engine leaves that
out, so its drafts judged in one order are fewer where little came since the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.governor.values import ReplayScores
from paceline.policy_simulator.engine.batch import Ints, RequestBatch

MAX_REQUESTS = 4
JUDGED_TOKENS = 64
"""As in the engine."""


@dataclass(frozen=True, slots=True)
class SimulatedReplay:
    """One pass, and what came of it."""

    num_requests: int
    """Requests that it computed tokens of."""
    computed_tokens: int
    missing_tokens: int
    """What the draft model still lacks of the request that it lacks least of; 0 when it judged."""
    drafts: tuple[tuple[int, int], ...]
    """Tokens judged and accepted of each draft that there would have been."""

    def report(self, seconds: float) -> ReplayScores:
        """What the policy is told of a pass that took `seconds`."""
        return ReplayScores(
            drafted=tuple(drafted for drafted, _ in self.drafts),
            accepted=tuple(accepted for _, accepted in self.drafts),
            computed_tokens=self.computed_tokens,
            missing_tokens=self.missing_tokens,
            seconds=seconds,
        )


def look_back(batch: RequestBatch, running: Ints, max_tokens: int, depth: int) -> SimulatedReplay:
    """Compute up to `max_tokens` tokens of the batch's `running` requests, and judge drafts of
    `depth` tokens. Mutates what the draft model has missed of them."""
    chosen = _least_missed(batch, running)
    room, num_requests = max_tokens, 0
    drafts: list[tuple[int, int]] = []
    for slot in chosen:
        # What the computed tokens predict, counted in output tokens: negative in the prompt.
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
        if stop > 0:
            drafts += _judge(batch, slot, max(start, stop - JUDGED_TOKENS, 0), stop, depth)
    lacking = [] if drafts else batch.missed[chosen].tolist()
    return SimulatedReplay(num_requests, max_tokens - room, min(lacking, default=0), tuple(drafts))


def _least_missed(batch: RequestBatch, running: Ints) -> list[int]:
    """The slots of the decoding requests that the draft model misses the least of."""
    decoding = running[batch.position[running] > 0]
    order = np.argsort(batch.missed[decoding], kind="stable")
    slots: list[int] = decoding[order[:MAX_REQUESTS]].tolist()
    return slots


def _judge(
    batch: RequestBatch, slot: int, start: int, stop: int, depth: int
) -> list[tuple[int, int]]:
    """The drafts that output tokens [start, stop) would have been, one after the other.

    Each ends at its first miss, with a token of the target's own in place of it, or whole, with one
    after it. The one that the text cuts short is judged as far as it was accepted.
    """
    luck = batch.past_luck(slot, start, stop).tolist()
    drafts = []
    begin = 0
    while begin < len(luck):
        draws = luck[begin : begin + depth]
        logits = batch.logits_at(slot, start + begin).tolist()
        missed_at = (i for i, draw in enumerate(draws) if not draw < logits[i])
        accepted = next(missed_at, len(draws))
        drafts.append((depth if accepted < len(draws) else accepted, accepted))
        begin += accepted + 1
    return drafts
