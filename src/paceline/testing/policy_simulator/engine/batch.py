"""The state of the requests in the simulated engine, and the acceptance of their draft tokens.

The state is arrays over slots; a request keeps its slot from admission to its end. Random draws
belong to the request and the position of its output token, not to the step: token i of a request
meets the same draw whatever lengths were drafted before. So runs with different policies on one
seed differ because of the policies' decisions and hardly by chance. Each draw decides once: a
verdict at position i ends in a token at position i.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paceline.testing.policy_simulator.traffic.arrivals import Arrival
from paceline.testing.policy_simulator.traffic.phases import DraftTruth, Phase

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_BLOCK = 128
"""Draws are made for this many output tokens at a time; each slot holds two blocks."""


class RequestBatch:
    """The requests being served. The engine's loop reads the columns directly."""

    def __init__(self, num_slots: int, max_draft_length: int) -> None:
        if max_draft_length > _BLOCK // 2:
            raise ValueError(
                f"max_draft_length is {max_draft_length}; it must be at most {_BLOCK // 2}"
            )
        self._depth = max(max_draft_length, 1)
        self._free = list(range(num_slots - 1, -1, -1))
        self._serials = 0
        self.serial = np.full(num_slots, -1, dtype=np.int64)
        """Number of the request in the slot; -1 for none."""
        self.prompt_left = np.zeros(num_slots, dtype=np.int64)
        self.output_left = np.zeros(num_slots, dtype=np.int64)
        self.computed = np.zeros(num_slots, dtype=np.int64)
        """Tokens in the KV cache as the scheduler counts them: with drafts in flight."""
        self.drafts = np.zeros(num_slots, dtype=np.int64)
        """Draft tokens waiting to be verified."""
        self.planned = np.full(num_slots, -1, dtype=np.int64)
        """Draft tokens that its last step asked for; -1 before the first, and while it prefills."""
        self.in_flight = np.zeros(num_slots, dtype=np.int64)
        """Scheduled steps of the request whose results are pending."""
        self.missed = np.zeros(num_slots, dtype=np.int64)
        """Tokens the draft model has not computed."""
        self.arrived_s = np.zeros(num_slots)
        self.output_tokens = np.zeros(num_slots, dtype=np.int64)
        """Of the whole answer."""
        self.first_output_s = np.full(num_slots, np.nan)
        self.last_output_s = np.full(num_slots, np.nan)
        self.matched = np.zeros(num_slots)
        """1 where the n-gram drafter has a match, 0 where not; before the first, the chance."""
        self.position = np.zeros(num_slots, dtype=np.int64)
        """Output tokens produced so far: the index of the next one."""
        self._block_start = np.zeros(num_slots, dtype=np.int64)
        self._acceptance_luck = np.zeros((num_slots, 2 * _BLOCK))
        self._match_luck = np.zeros((num_slots, 2 * _BLOCK))
        self._logits = np.zeros((num_slots, self._depth))
        self._match_fraction = np.ones(num_slots)
        self._match_memory = np.zeros(num_slots)
        self._arrivals: dict[int, Arrival] = {}
        self._truths: dict[str, DraftTruth] = {}

    def enter(self, phase: Phase) -> None:
        """Apply the phase's true acceptance, also to requests under way."""
        self._truths |= {kind.name: kind.truth for kind in phase.classes}
        for slot, arrival in self._arrivals.items():
            self._set_truth(slot, arrival)

    def admit(self, arrival: Arrival) -> int:
        """Give a request a slot; returns it."""
        slot = self._free.pop()
        self._arrivals[slot] = arrival
        self.serial[slot] = self._serials
        self._serials += 1
        self.prompt_left[slot] = arrival.prompt_tokens
        self.output_left[slot] = self.output_tokens[slot] = arrival.output_tokens
        self.computed[slot] = self.drafts[slot] = self.in_flight[slot] = self.missed[slot] = 0
        self.planned[slot] = -1
        self.arrived_s[slot] = arrival.arrived_s
        self.last_output_s[slot] = np.nan
        self.position[slot] = self._block_start[slot] = 0
        self._set_truth(slot, arrival)
        self.matched[slot] = self._match_fraction[slot]
        for half in (slice(0, _BLOCK), slice(_BLOCK, 2 * _BLOCK)):
            self._draw(slot, half)
        return slot

    def release(self, slots: Ints) -> None:
        """Free the slots of requests that have ended."""
        for slot in slots.tolist():
            self.serial[slot] = -1
            del self._arrivals[slot]
            self._free.append(slot)

    def accepted(self, slots: Ints, verified: Ints) -> Ints:
        """How many of each request's `verified` draft tokens the target accepts, (num_slots,)."""
        depth = int(np.maximum.reduce(verified, initial=0))
        if depth == 0:
            return np.zeros(len(slots), dtype=np.int64)
        ahead = np.arange(depth)
        columns = (self.position[slots] - self._block_start[slots])[:, None] + ahead
        luck = self._acceptance_luck[slots[:, None], columns]
        hits = (luck < self._logits[slots, :depth]) & (ahead < verified[:, None])
        runs: Ints = np.add.reduce(np.logical_and.accumulate(hits, axis=1), axis=1)
        return runs

    def advance(self, slots: Ints, emitted: Ints) -> None:
        """The output of these requests has grown by `emitted` tokens each."""
        self.position[slots] += emitted
        offset = self.position[slots] - self._block_start[slots]
        if np.maximum.reduce(offset, initial=0) >= _BLOCK:
            for slot in slots[offset >= _BLOCK].tolist():
                self._next_block(slot)

    def match(self, slots: Ints, emitted: Ints) -> Ints:
        """Whether the n-gram drafter has a match, `emitted` tokens after the last look-up."""
        base = self._match_fraction[slots]
        chance = base + (self.matched[slots] - base) * self._match_memory[slots] ** emitted
        columns = self.position[slots] - self._block_start[slots]
        found: Ints = (self._match_luck[slots, columns] < chance).astype(np.int64)
        self.matched[slots] = found
        return found

    def _set_truth(self, slot: int, arrival: Arrival) -> None:
        truth = self._truths[arrival.kind.name]
        shift = truth.spread * arrival.quality
        self._logits[slot] = np.asarray(truth.logits(self._depth)) + shift
        self._match_fraction[slot] = truth.match_fraction
        self._match_memory[slot] = truth.match_memory

    def _next_block(self, slot: int) -> None:
        for luck in (self._acceptance_luck, self._match_luck):
            luck[slot, :_BLOCK] = luck[slot, _BLOCK:]
        self._draw(slot, slice(_BLOCK, 2 * _BLOCK))
        self._block_start[slot] += _BLOCK

    def _draw(self, slot: int, half: slice) -> None:
        random = self._arrivals[slot].random
        # A logistic draw is logit(uniform): below logit(hazard) with chance `hazard`.
        self._acceptance_luck[slot, half] = random.logistic(size=_BLOCK)
        self._match_luck[slot, half] = random.random(_BLOCK)


def uniform_tokens(scheduled: Ints, verified: Ints) -> int | None:
    """The tokens of every request of a step, (num_requests,) each; None where they differ, or where
    a prompt is among them."""
    first = int(scheduled[0])
    is_uniform = bool(((scheduled == first) & (verified == first - 1)).all())
    return first if is_uniform else None
