"""Waiting for the prompts of other requests: with all slots of a replica in use, and under a load.

Arrivals are Poisson. With all slots in use they come at the rate that the replica serves; under a
load, the number of requests that a new one finds has the distribution of `capacity.queueing`. Both
use `capacity.prompt_queue` for the wait among a given number of requests, and neither wait is
longer than the prompts of all other slots take.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from paceline.foundation.capacity.prompt_queue import NO_WAIT, PromptQueue, PromptWait, mixed_wait
from paceline.foundation.capacity.queueing import request_probabilities

_NEGLIGIBLE = 1e-7
"""Probability of a number of requests below which it is left out."""


@dataclass(frozen=True, slots=True)
class SlotUse:
    """One replica with `num_requests` requests at all times, as far as its waits depend on it."""

    num_requests: int
    requests_per_s: float
    prefill_s: float
    """To compute one prompt."""
    step_s: float
    """To decode one step."""
    steps_per_prompt: float
    """Tokens of a prompt over those that a step has left beside its decodes."""

    @property
    def residence_s(self) -> float:
        """From the first step of a request to its last, by Little's law."""
        return self.num_requests / self.requests_per_s

    def wait_s(self, quantile: float) -> float:
        """Wait of a request for the prompts of the others; infinite where they find no room.

        It is at least that of any smaller load.
        """
        if self.num_requests == 1:
            return 0.0
        try:
            queue = self._queue(self.requests_per_s)
        except ValueError:
            return math.inf
        return min(queue.wait().quantile_s(quantile), queue.longest_wait_s(self.num_requests - 1))

    def wait_among(self, arrivals_per_s: float) -> PromptWait:
        """Wait of a request that finds this many others. `ValueError` where it has no bound."""
        return self._queue(arrivals_per_s).wait()

    def longest_wait_s(self, arrivals_per_s: float) -> float:
        """Wait for the prompts of all others."""
        return self._queue(arrivals_per_s).longest_wait_s(self.num_requests - 1)

    def _queue(self, arrivals_per_s: float) -> PromptQueue:
        return PromptQueue(arrivals_per_s, self.prefill_s, self.step_s, self.steps_per_prompt)


def loaded_wait_s(uses: Sequence[SlotUse], arrivals_per_s: float, quantile: float) -> float:
    """Return the wait for prompts under a load, at a quantile; see `loaded_wait`."""
    full = uses[-1]
    if full.num_requests == 1:
        return 0.0
    wait = loaded_wait(uses, arrivals_per_s)
    return min(wait.quantile_s(quantile), full.longest_wait_s(arrivals_per_s))


def loaded_wait(uses: Sequence[SlotUse], arrivals_per_s: float) -> PromptWait:
    """Return the wait for prompts at a replica to which requests come as a Poisson process.

    `uses` are numbers of requests in ascending order, the slots of the replica last; between them
    the figures are interpolated. A request that finds all slots in use waits for a slot first, and
    then finds one request fewer. Raises `ValueError` for a load that the replica cannot serve.
    """
    num_slots = uses[-1].num_requests
    at = _interpolated(uses)
    probabilities = request_probabilities(arrivals_per_s, lambda n: at(n).residence_s, num_slots)
    last = probabilities.pop()
    probabilities[-1] += last

    def parts() -> Iterator[tuple[float, PromptWait]]:
        kept = [(n, p) for n, p in enumerate(probabilities) if p > _NEGLIGIBLE]
        total = sum(p for _, p in kept)
        for found, probability in kept:
            wait = at(found).wait_among(arrivals_per_s) if found else NO_WAIT
            yield probability / total, wait

    return mixed_wait(parts())


def _interpolated(uses: Sequence[SlotUse]) -> Callable[[int], SlotUse]:
    """The figures at any number of requests from 1 on; below the first they are those of it."""
    sizes = [use.num_requests for use in uses]

    def at(num_requests: int) -> SlotUse:
        above = min(bisect_left(sizes, num_requests), len(uses) - 1)
        right = uses[above]
        if above == 0 or right.num_requests == num_requests:
            return replace(
                right, num_requests=num_requests, requests_per_s=num_requests / right.residence_s
            )
        left = uses[above - 1]
        share = (num_requests - left.num_requests) / (right.num_requests - left.num_requests)

        def between(low: float, high: float) -> float:
            return low + share * (high - low)

        residence_s = between(left.residence_s, right.residence_s)
        return SlotUse(
            num_requests,
            num_requests / residence_s,
            right.prefill_s,
            between(left.step_s, right.step_s),
            between(left.steps_per_prompt, right.steps_per_prompt),
        )

    return at
