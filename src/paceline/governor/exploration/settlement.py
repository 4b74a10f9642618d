"""The price of an exploration, paid in advance at its forecast and settled at its measurement.

An exploration drafts another length for one or more steps. Each of these steps, and the one that
verifies the last of its drafts, wastes

    seconds - tokens * seconds per token at the length in force

which is 0 on average for a step without exploration. The sum replaces the forecast price in the
budget. A step that was not measured, or also computed prompt tokens, wastes its share of the
forecast: half for drafting, half for verifying. A gain is no income: the sum counts as 0 at least.
One stall must not end exploring for long: the sum counts as `_MAX_PRICES` forecast prices at most.
"""

from __future__ import annotations

from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.values import StepSample

_MAX_PRICES = 4.0
_PATIENCE = 16
"""Samples after which an exploration of which none has arrived is settled at its forecast. Both
chosen empirically."""


class Settlement:
    """Follows one exploration at a time from its order to its last sample."""

    def __init__(self, budget: ExplorationBudget) -> None:
        self._budget = budget
        self._length = 0
        self._price_s = 0.0  # of one step
        self._token_s = 0.0
        self._end()

    def pay(self, price_s: float, *, length: int, token_s: float) -> None:
        """Pay the forecast price of a step at `length`; `token_s` is the time per token at the
        length in force."""
        if length != self._length:
            self._end()
        self._budget.pay(price_s)
        self._num_paid += 1
        self._paid_s += price_s
        self._length, self._price_s, self._token_s = length, price_s, token_s
        self._num_other = 0

    def observe(self, sample: StepSample) -> None:
        """Add the sample's waste if it is part of the exploration; settle after the last one.

        Steps at the same length that nobody paid for belong to a length that has won.
        """
        if self._num_paid == 0:
            return
        verifies = (
            sample.requested_draft_length == self._length and self._num_verified < self._num_drafted
        )
        drafts = sample.draft_length == self._length and self._num_drafted < self._num_paid
        if not verifies and not drafts:
            self._num_other += 1
            if self._num_other >= _PATIENCE:
                self._end()
            return
        self._num_verified += verifies
        self._num_drafted += drafts
        self._wasted_s += self._waste_s(sample, num_halves=verifies + drafts)
        if self._num_verified == self._num_paid:
            wasted_s = min(max(self._wasted_s, 0.0), _MAX_PRICES * self._paid_s)
            self._budget.pay(wasted_s - self._paid_s)
            self._end()

    def _waste_s(self, sample: StepSample, num_halves: int) -> float:
        gained_s = self._token_s * sum(sample.accepted)
        if sample.is_clean and sample.duration_s and not sample.prefill_tokens:
            return sample.duration_s - self._token_s * sample.num_requests - gained_s
        return num_halves * self._price_s / 2.0 - gained_s

    def _end(self) -> None:
        self._num_paid = self._num_drafted = self._num_verified = 0
        self._paid_s = self._wasted_s = 0.0
        self._num_other = 0  # samples since the last payment without a part of it
