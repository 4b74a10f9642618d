"""An estimate of how much the requests of a batch differ in acceptance.

The variance of accepted tokens between the requests of a step has two parts: chance, and lasting
differences, because some requests are harder than others. The lasting share is the intraclass
correlation, estimated from what the same requests had accepted in two steps `_LAG_STEPS` apart:

    share = Σ (a_i - mean a) (b_i - mean b) / Σ ((a_i - mean a)² + (b_i - mean b)²) / 2

with sums over requests in both steps, and over pairs of steps, older ones fading. Values are
centred within a step, so that a change of all requests does not count as a difference between them.
One standard error is subtracted, so that an uncertain share counts as chance. The share also fades
while nothing is drafted: otherwise a policy that switches off because requests differ would never
learn that they no longer do.

Assumes that the chance parts of two steps one lag apart are independent. Undefined with one request
at a time. Reference: Fisher (1925), chapter 7.
"""

from __future__ import annotations

import math

from paceline.runtime.governor.values import StepSample

# All chosen empirically on the simulator.
_LAG_STEPS = 8
"""Text that is easy stays easy for some tokens; that is chance too."""
_MOST_REQUESTS = 64
"""Enough for the estimate, at a bounded cost per step."""
_MEMORY_PAIRS = 2048.0
_IDLE_MEMORY_STEPS = 1024.0


class Dispersion:
    """Learns the share of lasting differences between requests."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        self._steps_since = 0
        self._joint = 0.0
        self._total = 0.0
        self._pairs = 0.0
        self.share = 0.0
        """Lasting share of the variance between requests: 0 (all chance) to 1. Read only."""

    def observe(self, sample: StepSample) -> None:
        """Learn from every `_LAG_STEPS`-th step with drafts."""
        if sample.requested_draft_length == 0:
            self._before = {}
            self.share *= math.exp(-1.0 / _IDLE_MEMORY_STEPS)
            self._joint *= math.exp(-1.0 / _IDLE_MEMORY_STEPS)
            return
        self._steps_since += 1
        if self._before and self._steps_since < _LAG_STEPS:
            return
        self._steps_since = 0
        judged, accepted = sample.judged[:_MOST_REQUESTS], sample.accepted[:_MOST_REQUESTS]
        before, self._before = self._before, dict(zip(judged, accepted, strict=False))
        pairs = [(before[name], now) for name, now in self._before.items() if name in before]
        if len(pairs) >= 2:
            self._learn(pairs)

    def _learn(self, pairs: list[tuple[int, int]]) -> None:
        num_pairs = len(pairs)
        first_mean = sum(first for first, _ in pairs) / num_pairs
        second_mean = sum(second for _, second in pairs) / num_pairs
        joint = total = 0.0
        for first, second in pairs:
            one, other = first - first_mean, second - second_mean
            joint += one * other
            total += (one * one + other * other) / 2.0
        keep = math.exp(-num_pairs / _MEMORY_PAIRS)
        self._joint = keep * self._joint + joint
        self._total = keep * self._total + total
        self._pairs = keep * self._pairs + num_pairs - 1.0
        if self._total > 0.0:
            share = self._joint / self._total - 1.0 / math.sqrt(self._pairs)
            self.share = min(max(share, 0.0), 1.0)
