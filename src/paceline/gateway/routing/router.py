"""Which replica takes this attempt?

Filter (model, state, what the request needs, the breaker), then the smallest load. A
decision on values as of now: it neither suspends nor changes anything. The lease that follows
raises the count before the next decision, so a burst does not go to one replica.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from paceline.gateway.peers import NoPeerWorkers, PeerWorkers
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.replicas import Replica, ReplicaSource, num_slots_of
from paceline.gateway.requests.needs import Needs
from paceline.gateway.routing.breaker import Breakers
from paceline.gateway.routing.capabilities import can_serve
from paceline.gateway.settings import AdmissionSettings


class Router:
    """Chooses among the replicas of one source."""

    def __init__(
        self,
        source: ReplicaSource,
        ledger: LeaseTable,
        breakers: Breakers,
        settings: AdmissionSettings,
        peers: PeerWorkers | None = None,
    ) -> None:
        self._source = source
        self._peers = peers or NoPeerWorkers()
        self._settings = settings
        self._ledger = ledger
        self._breakers = breakers

    def of_model(self, model: str) -> list[Replica]:
        """Its replicas, ready or not; empty when it is not served here."""
        return [replica for replica in self._source.replicas() if replica.model == model]

    def open_to(self, model: str) -> list[Replica]:
        """Those of a model that are ready and whose breaker lets requests pass, or all ready ones
        when none does."""
        ready = {r.name: r for r in self.of_model(model) if r.state == "ready"}
        return [ready[name] for name in self._breakers.admitted(list(ready), time.monotonic())]

    def choose(
        self,
        model: str,
        needs: Needs,
        avoid: Collection[str] = (),
        *,
        allow_open_breakers: bool = True,
        continues_from: Replica | None = None,
    ) -> Replica | None:
        """The replica for the next attempt; None when there is none.

        Those in `avoid` are left out. With `allow_open_breakers`, when every breaker is open, one of these all
        the same: better a doubtful replica than none. To continue a stream that `continues_from` began it
        must tell token ids too, and have as long a context.
        """
        able = {
            replica.name: replica
            for replica in self.of_model(model)
            if replica.state == "ready"
            and replica.name not in avoid
            and can_serve(replica, needs)
            and (continues_from is None or _can_go_on(replica, continues_from))
        }
        now_s = time.monotonic()
        names = self._breakers.admitted(list(able), now_s, allow_open_breakers=allow_open_breakers)
        return self._least_loaded([able[name] for name in names], now_s)

    def _least_loaded(self, replicas: Sequence[Replica], now_s: float) -> Replica | None:
        """The one with the smallest share of its places taken.

        Of equals the one that its breaker would have tried; then the first, whose prefix cache
        knows the most.
        """

        def rank(replica: Replica) -> tuple[float, int]:
            return self._load(replica), self._breakers.order_among_equals(replica.name, now_s)

        return min(replicas, key=rank, default=None)

    def _load(self, replica: Replica) -> float:
        name = replica.name
        num_in_flight = self._ledger.num_in_flight(name) + self._peers.num_in_flight(name)
        return num_in_flight / num_slots_of([replica], self._settings)


def _can_go_on(replica: Replica, first: Replica) -> bool:
    if not replica.reports_token_ids:
        return False
    if first.max_model_len is None or replica.max_model_len is None:
        return True
    return replica.max_model_len >= first.max_model_len
