"""Decide in which steps at draft length 0 the workers run the first-token probe.

A drafter that does not rest (EAGLE, MTP) runs in every step at length 0 to keep its KV cache
current, and stops before its output layer. With that layer it also produces a first token, and the
next step shows whether the target produces the same one. That is a verdict on position 1 for every
request, without drafting or verifying anything (`worker.first_token_probe`). The output layer is
not free: with a large vocabulary it is several percent of a small target. The probe therefore runs
so rarely that it takes at most `FIRST_TOKEN_SHARE` of the time, estimated from the size of the
weights. A mixture-of-experts target reads only part of its weights, so the estimate is too low;
`_MIN_INTERVAL_STEPS` then bounds the share.
"""

from __future__ import annotations

import math

from paceline.governor.exploration.exploration_budget import FIRST_TOKEN_SHARE
from paceline.governor.values import DraftPlan

_MIN_INTERVAL_STEPS = 5
"""Chosen empirically: the steps in between show what a step at length 0 costs without the probe."""


class FirstTokenSchedule:
    """Spaces the orders by the cost of the output layer.

    `head_fraction` is the output layer's share of the drafter's output layer and target weights.
    """

    def __init__(self, head_fraction: float) -> None:
        if not 0.0 < head_fraction < 1.0:
            raise ValueError(
                f"head_fraction is {head_fraction}; it must be between 0 and 1, exclusive"
            )
        self.interval_steps = max(math.ceil(head_fraction / FIRST_TOKEN_SHARE), _MIN_INTERVAL_STEPS)
        """Steps from one order to the next."""
        self._steps_since = 0

    def is_due(self, plan: DraftPlan) -> bool:
        """Return whether to order the probe in this step. Call it once per step; it counts."""
        self._steps_since += 1
        if not plan.requests_first_tokens or self._steps_since < self.interval_steps:
            return False
        self._steps_since = 0
        return plan.draft_length == 0
