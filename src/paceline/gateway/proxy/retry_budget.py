"""May one more attempt be made, or would retries become a load of their own?

Counts what is allowed; which failures deserve a retry is decided in `failure_policy`.
"""

from __future__ import annotations

import math

from paceline.gateway.sliding_sum import SlidingSum

_WINDOW_S = 10.0
"""Finagle's: requests earn retries for 10 s."""


class RetryBudget:
    """Retries of the last 10 s ≤ `fraction` · requests of the last 10 s + `reserve`.

    A bucket whose tokens expire: each request puts `fraction` of a token in, a retry takes one out,
    `reserve` tokens are always there and come back 10 s after they were spent. So a quiet service
    can retry, a replica that dies loses none of the requests it holds as long as those are at most
    `reserve`, and when everything fails the engines see 1 + `fraction` times the requests and not a
    multiple of them. Retries are bounded per request too, by `FailureSettings.max_attempts`.

    Where it fails: with several gateways each has a reserve of its own.

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
        """A request arrived; its retries are not to be noted here."""
        self._requests.add(1, now_s)

    def num_left(self, now_s: float) -> int:
        """Retries that could be made now. Negative never; 0 when there are fewer requests than
        when the retries were made."""
        earned = self._reserve + self._fraction * self._requests.total(now_s)
        return max(0, math.floor(earned - self._retries.total(now_s) + 1e-9))

    def try_spend(self, now_s: float) -> bool:
        """Take one; False, and nothing taken, when none is left."""
        if self.num_left(now_s) < 1:
            return False
        self._retries.add(1, now_s)
        return True
