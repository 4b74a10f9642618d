"""`RetryBudget`: bound the retries of all requests by a fraction of the requests.

Which failures are retried is decided in `failure_policy`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.runtime.gateway.sliding_sum import SlidingSum

_WINDOW_S = 10.0
"""Finagle's: requests earn retries for 10 s."""
_MAX_TENANT_FRACTION = 0.5
"""Of the retries after failures that a request may have caused. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one retry is charged to."""

    may_be_own_fault: bool
    """Whether the request may be the cause of the failure before: the replica lives."""
    tenant: str | None
    """None when keys are off."""


OUTAGE = Charge(may_be_own_fault=False, tenant=None)


class RetryBudget:
    """Retries of the last 10 s ≤ `fraction` · requests of the last 10 s + `reserve`.

    A bucket whose tokens expire: each request adds `fraction` of a token, a retry removes one, and
    each of the `reserve` tokens returns 10 s after it was spent. So a service with little traffic
    can retry. If a replica dies, all its requests can be retried, provided it held at most
    `reserve`. Retries per request are bounded by `FailureSettings.max_attempts`.

    There are two such buckets of the same size: one for requests whose replica ended or cannot be
    reached, and one for requests that may have caused the failure themselves. Of the second, one
    tenant may use half, at least one. So requests that make engines fail leave what others need
    when a replica dies. If every attempt fails, the engines receive only 1 + 2 · `fraction` times
    the requests.

    Limitation: each of several gateways has a reserve of its own.

    >>> budget = RetryBudget(fraction=0.5, reserve=1)
    >>> budget.note_request(0.0)
    >>> budget.note_request(0.0)
    >>> [budget.try_spend(1.0) for _ in range(3)]
    [True, True, False]
    """

    def __init__(self, fraction: float, reserve: int) -> None:
        self._fraction = fraction
        self._reserve = reserve
        self._requests = SlidingSum(_WINDOW_S)
        self._after_outages = SlidingSum(_WINDOW_S)
        self._after_doubts = SlidingSum(_WINDOW_S)
        self._of_tenants: dict[str, SlidingSum] = {}
        """Of those after doubts; only tenants with some in the window."""

    def note_request(self, now_s: float) -> None:
        """A request arrived. Do not call it for retries."""
        self._requests.add(1, now_s)

    def num_left(self, now_s: float, charge: Charge = OUTAGE) -> int:
        """Retries that could be made now; never negative, even when the traffic has fallen since
        the retries were made."""
        earned = self._reserve + self._fraction * self._requests.total(now_s)
        if not charge.may_be_own_fault:
            left = earned - self._after_outages.total(now_s)
        else:
            left = earned - self._after_doubts.total(now_s)
            if charge.tenant is not None:
                of_tenant = self._of_tenants.get(charge.tenant)
                spent = 0.0 if of_tenant is None else of_tenant.total(now_s)
                left = min(left, max(1, _MAX_TENANT_FRACTION * earned) - spent)
        return max(0, math.floor(left + 1e-9))

    def try_spend(self, now_s: float, charge: Charge = OUTAGE) -> bool:
        """Take one; False, with nothing taken, when none is left."""
        if self.num_left(now_s, charge) < 1:
            return False
        if not charge.may_be_own_fault:
            self._after_outages.add(1, now_s)
            return True
        self._after_doubts.add(1, now_s)
        if charge.tenant is not None:
            self._add_of(charge.tenant, now_s)
        return True

    def _add_of(self, tenant: str, now_s: float) -> None:
        spent = self._of_tenants.get(tenant)
        if spent is None:
            kept = {name: one for name, one in self._of_tenants.items() if one.total(now_s)}
            spent = SlidingSum(_WINDOW_S)
            self._of_tenants = {**kept, tenant: spent}
        spent.add(1, now_s)
