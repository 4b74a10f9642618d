"""The measured cost of catching up when drafting resumes after a rest.

A drafter that rested at draft length 0 first computes what it missed (see `StepSample.catches_up`).
The time of such a step beyond that of a clean one is kept per token of context: the estimate rises
at once and falls slowly, because a step after a short rest shows little of the cost.
"""

from __future__ import annotations

from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import StepSample

_FALL_SHARE = 0.2
"""Chosen empirically on the simulator."""


class CatchUpCost:
    """Seconds of catching up, per token of context; 0 before the first measurement."""

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self.token_s = 0.0

    def observe(self, sample: StepSample) -> float | None:
        """Learn from a step that caught up; returns the seconds it took, None for other steps."""
        if not sample.catches_up or sample.prefill_tokens or not sample.context_tokens:
            return None
        if sample.duration_s is None:
            return None
        clean_s = self._cost.predict_s(
            sample.num_requests,
            sample.verified_draft_tokens,
            sample.context_tokens,
            sample.draft_length,
        )
        excess_s = max(sample.duration_s - clean_s, 0.0)
        token_s = excess_s / sample.context_tokens
        share = 1.0 if token_s > self.token_s else _FALL_SHARE
        self.token_s += share * (token_s - self.token_s)
        return excess_s
