"""Which replica takes this attempt?

Filter (model, state, what the request needs, the breaker), then the fewest requests in flight. A
decision on values as of now: it neither suspends nor changes anything. The lease that follows
raises the count before the next decision, so a burst does not go to one replica.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from paceline.gateway.breaker import Breakers
from paceline.gateway.capabilities import Needs, can_serve
from paceline.gateway.lease import Ledger
from paceline.gateway.replicas import Replica, ReplicaSource


class Router:
    """Chooses among the replicas of one source."""

    def __init__(self, source: ReplicaSource, ledger: Ledger, breakers: Breakers) -> None:
        self._source = source
        self._ledger = ledger
        self._breakers = breakers

    def of_model(self, model: str) -> list[Replica]:
        """Its replicas, ready or not; empty when it is not served here."""
        return [replica for replica in self._source.replicas() if replica.model == model]

    def choose(self, model: str, needs: Needs, failed: Collection[str] = ()) -> Replica | None:
        """The replica for the next attempt; None when none is ready.

        One of those that did not fail this request before, if there is any.
        """
        able = [
            replica
            for replica in self.of_model(model)
            if replica.state == "ready" and can_serve(replica, needs)
        ]
        if not able:
            return None
        names = self._breakers.admitted([replica.name for replica in able], time.monotonic())
        admitted = [replica for replica in able if replica.name in names]
        fresh = [replica for replica in admitted if replica.name not in failed]
        return self._least_loaded(fresh or admitted)

    def _least_loaded(self, replicas: Sequence[Replica]) -> Replica | None:
        """The first of equals."""
        return min(
            replicas, key=lambda replica: self._ledger.num_in_flight(replica.name), default=None
        )
