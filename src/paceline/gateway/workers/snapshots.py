"""Which list of replicas do the workers go by, and what does that mean for one that is taken out?

State on values, in the head. The list is compared, not watched: replicas change without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.gateway.replicas import Replica, ReplicaSource
from paceline.gateway.routing.breaker import BreakerState
from paceline.gateway.workers.messages import Replicas
from paceline.gateway.workers.totals import Totals


class Snapshots:
    """The lists that were sent, of which the last counts."""

    def __init__(self) -> None:
        self.last = Replicas(0, ())

    def take(self, replicas: Sequence[Replica]) -> Replicas:
        """The list to go by: a new one with a higher number if anything has changed."""
        if self.last.number == 0 or self.last.replicas != tuple(replicas):
            self.last = Replicas(self.last.number + 1, tuple(replicas))
        return self.last


class WorkersTraffic:
    """As `Traffic`, over all workers; about 50 ms old."""

    def __init__(self, totals: Totals, snapshots: Snapshots) -> None:
        self._totals = totals
        self._snapshots = snapshots
        self._source: ReplicaSource | None = None

    def goes_by(self, source: ReplicaSource) -> None:
        """Where the list of replicas comes from."""
        self._source = source

    def num_in_flight(self, replica_name: str) -> int:
        """Requests that the replica holds.

        One that is taken out counts as holding one until all workers have told that they know:
        before that, one of them may have begun a request.
        """
        told = self._totals.num_in_flight(replica_name)
        return told or int(self._is_leaving_unheard(replica_name))

    def breaker_states(self) -> Mapping[str, BreakerState]:
        return self._totals.breaker_states()

    def _is_leaving_unheard(self, replica_name: str) -> bool:
        replicas = () if self._source is None else self._source.replicas()
        if not any(one.name == replica_name and one.state == "draining" for one in replicas):
            return False
        return not self._totals.all_heard(self._snapshots.take(replicas).number)
