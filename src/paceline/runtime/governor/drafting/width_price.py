"""The price of verifying a draft token, from the optimum of the step before.

The best set of tokens to verify is the q most probable ones, with q the maximum of

    (n + survival of the q most probable tokens) / seconds(q)

over all tokens that were drafted, with n requests that yield a token. The survival of the last
token of that set is what a token must have to be worth its time: the price. It is right also where
the costs have a stair or a bend, where one more token costs nothing up to some number, and much
beyond it. The price of one step applies in the next one, for drafting to be lossless
(`drafting_round`).

    log(price) += gain * (log(price of this step) - log(price))

If all tokens are in the best set, or none, the price is what one more would cost: no more than the
survival of the last one, or no less than that of the first. Where the number of requests has
changed by half since the step before, the price begins anew, with what a token of average width
costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from paceline.foundation.capacity.cost_table import LEAST_STEP_S, LoadCosts, at
from paceline.runtime.governor.acceptance.confidence_map import Floats, Ints
from paceline.runtime.governor.values import DraftRule

# All chosen empirically on recorded drafts.
_GAIN = 0.3
_LEAST_PRICE = 1e-3
_OTHER_LOAD = 1.5
_MAX_COMPARED = 40
"""Numbers of tokens that are compared; more would gain nothing."""


class WidthPrice:
    """Follows the price of verification and the rate of tokens, for one engine."""

    def __init__(self) -> None:
        self._num_requests = 0
        self._price: float | None = None
        self.rate = 0.0
        """Tokens per second. Read only."""

    def rule(
        self,
        num_requests: int,
        *,
        maps: dict[str, tuple[float, float]],
        draft_s: Sequence[float],
        first_rate: float,
        first_price_s: float,
    ) -> DraftRule:
        """The rule of the next step.

        `draft_s` has the seconds of 0, 1, … passes of the draft model. `first_rate` in tokens per
        second and `first_price_s` in seconds per token apply at a new load.
        """
        known = self._num_requests
        if self._price is None or not known / _OTHER_LOAD < num_requests < known * _OTHER_LOAD:
            self.rate = first_rate
            self._price = max(first_rate * first_price_s, _LEAST_PRICE)
        self._num_requests = num_requests
        return DraftRule(
            maps=maps,
            least_survival=self._price,
            pass_tokens=tuple(
                self.rate * (longer - shorter) for shorter, longer in pairwise(draft_s[1:])
            ),
        )

    def forget(self) -> None:
        """Nothing is drafted: the price begins anew."""
        self._price = None

    def settle(
        self, num_decoding: int, survival: Floats, costs: LoadCosts, num_passes: int
    ) -> None:
        """Learn the price from the drafts of a step in which `num_decoding` requests yield a token.

        `survival` has the drafts that could be verified, (num_drafts,), of `num_passes` passes.
        """
        if self._price is None or not survival.size:
            return
        falling = np.sort(survival)[::-1]
        yields = num_decoding + np.concatenate(([0.0], np.cumsum(falling)))
        numbers = np.linspace(0, len(falling), min(len(falling), _MAX_COMPARED) + 1).astype(int)
        rates = yields[numbers] / _steps_s(costs, numbers, num_passes)
        best = int(rates.argmax())
        number = int(numbers[best])
        if 0 < number < len(falling):
            price = float(falling[number - 1] + falling[number]) / 2.0
        else:
            more = max(number // 4, 1)
            further_s = costs.step_s(number + more, num_passes) - costs.step_s(number, num_passes)
            price = float(rates[best]) * further_s / more
            least, most = (0.0, falling[-1]) if number else (falling[0], 1.0)
            price = min(max(price, float(least)), float(most))
        before, now = (math.log(max(value, _LEAST_PRICE)) for value in (self._price, price))
        self._price = math.exp(before + _GAIN * (now - before))
        self.rate += _GAIN * (float(rates[best]) - self.rate)


def _steps_s(costs: LoadCosts, numbers: Ints, num_passes: int) -> Floats:
    """`LoadCosts.step_s` of each of these numbers of verified tokens, (num_numbers,)."""
    row, widths = costs.verify_s, numbers / costs.num_requests
    last = len(row) - 1
    slope = max(row[last] - row[last - 1], 0.0)
    added_s = np.interp(widths, range(last + 1), row) + slope * np.maximum(widths - last, 0.0)
    seconds: Floats = costs.plain_s + at(costs.draft_s, num_passes) + added_s
    return np.maximum(seconds, LEAST_STEP_S)
