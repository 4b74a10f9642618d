"""`RetryBudget`: bound the retries of all requests by a fraction of the requests.

Which failures are retried is decided in `failure_policy`.
"""

from __future__ import annotations

import math

from paceline.gateway.sliding_sum import SlidingSum

_WINDOW_S = 10.0
"""Finagle's: requests earn retries for 10 s."""


class RetryBudget:
    """Retries of the last 10 s ≤ `fraction` · requests of the last 10 s + `reserve`.

    A bucket whose tokens expire: each request adds `fraction` of a token, a retry removes one, and
    each of the `reserve` tokens returns 10 s after it was spent. So a service with little traffic
    can retry. If a replica dies, all its requests can be retried, provided it held at most
    `reserve`. If every attempt fails, the engines receive only 1 + `fraction` times the requests.
    Retries per request are bounded by `FailureSettings.max_attempts`.

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
        self._retries = SlidingSum(_WINDOW_S)

    def note_request(self, now_s: float) -> None:
        """A request arrived. Do not call it for retries."""
        self._requests.add(1, now_s)

    def num_left(self, now_s: float) -> int:
        """Retries that could be made now; never negative, even when the traffic has fallen since
        the retries were made."""
        earned = self._reserve + self._fraction * self._requests.total(now_s)
        return max(0, math.floor(earned - self._retries.total(now_s) + 1e-9))

    def try_spend(self, now_s: float) -> bool:
        """Take one; False, with nothing taken, when none is left."""
        if self.num_left(now_s) < 1:
            return False
        self._retries.add(1, now_s)
        return True
