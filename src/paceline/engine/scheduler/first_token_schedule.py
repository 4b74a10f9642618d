"""When is a drafter that keeps up asked what it would have drafted first, at draft length 0?

A drafter that does not rest (EAGLE, MTP) runs once a step at length 0 too, to keep its KV cache in
step with the target's, and stops short of its output layer. With that layer it would have a first
token, and the next step shows whether the target makes the same: a verdict on position 1 for every
request, with nothing verified and no batch that drafts (`first_token_pass`). The output layer is
not free: with a large vocabulary it is several percent of a small target. So it is asked for once
in so many steps that it takes at most `FIRST_TOKEN_SHARE` of the time, by the size of the weights
(where a target reads only some of them, as with experts, `_LEAST_PAUSE_STEPS` bounds it).
"""

from __future__ import annotations

import math

from paceline.governor.exploration.exploration_budget import FIRST_TOKEN_SHARE
from paceline.governor.values import DraftPlan

# How an order and its report travel with vLLM's own objects, as attributes of these names.
ORDER = "paceline_first_tokens"
REPORT = "paceline_first_token_verdicts"

_LEAST_PAUSE_STEPS = 5
"""Between two orders there are steps whose duration says what a step at length 0 takes. By hand."""


class FirstTokenOrders:
    """Spaces the orders. `head_fraction` is the output layer's share of the weights."""

    def __init__(self, head_fraction: float) -> None:
        if not 0.0 < head_fraction < 1.0:
            raise ValueError(f"head_fraction is {head_fraction}; it must lie between 0 and 1")
        self.pause_steps = max(math.ceil(head_fraction / FIRST_TOKEN_SHARE), _LEAST_PAUSE_STEPS)
        """Steps from one order to the next."""
        self._steps_since = 0

    def is_due(self, plan: DraftPlan) -> bool:
        """Whether to ask in this step; call it once a step."""
        self._steps_since += 1
        if not plan.asks_first_tokens or self._steps_since < self.pause_steps:
            return False
        self._steps_since = 0
        return plan.draft_length == 0
