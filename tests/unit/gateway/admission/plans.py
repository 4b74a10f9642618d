"""Plans of requests, for tests of what happens after the checks."""

from __future__ import annotations

from paceline.runtime.gateway.requests.needs import Needs
from paceline.runtime.gateway.requests.plan import RequestCost, RequestPlan

UNDRAFTED = Needs(("logit_bias",))
_NOTHING = Needs()


def plan(num_sequences: int = 1, needs: Needs = _NOTHING, model: str = "m") -> RequestPlan:
    return RequestPlan("id", model, needs, RequestCost(num_sequences), deadline_at_s=60.0)
