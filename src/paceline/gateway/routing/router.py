"""`Router`: choose the replica of one attempt.

It filters (model, state, what the request needs, the breaker) and has a `ReplicaRanker` order the
rest. A decision on values as of now: it neither suspends nor changes anything. The lease that
follows raises the count in flight before the next decision, so a burst does not go to one replica.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

from paceline.gateway.replicas import Replica, ReplicaSource, num_slots_of, of_model
from paceline.gateway.requests.capabilities import can_serve
from paceline.gateway.requests.needs import Needs
from paceline.gateway.routing.breaker import Breakers
from paceline.gateway.routing.ranker import Candidate, ReplicaRanker
from paceline.gateway.routing.rankers import DEFAULT_RANKER
from paceline.gateway.settings import AdmissionSettings


class InFlightCounts(Protocol):
    """Counts the requests that replicas work on. Answers from memory."""

    def num_in_flight(self, replica_name: str) -> int: ...


class Router:
    """Chooses among the replicas of one source."""

    def __init__(
        self,
        source: ReplicaSource,
        leases: InFlightCounts,
        breakers: Breakers,
        settings: AdmissionSettings,
        peers: InFlightCounts | None = None,
        ranker: ReplicaRanker | None = None,
    ) -> None:
        """`leases` counts for this process, `peers` for the others on the data port, if any."""
        self._source = source
        self._leases = leases
        self._peers = peers
        self._breakers = breakers
        self._settings = settings
        self._ranker = ranker or DEFAULT_RANKER()

    def num_open_slots(self, model: str) -> int:
        """Slots of the model's ready replicas whose breaker admits requests, or of all ready ones
        when none does."""
        ready = {r.name: r for r in of_model(self._source.replicas(), model) if r.state == "ready"}
        admitted = self._breakers.admitted(list(ready), time.monotonic())
        return num_slots_of([ready[name] for name in admitted], self._settings)

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

        Replicas named in `avoid` are left out. With `allow_open_breakers`, when every breaker is
        open, one of these is chosen. To continue a stream that `continues_from` began, a replica
        must report token ids too, and have as long a context.
        """
        needs_nothing = needs.is_empty
        able = {
            replica.name: replica
            for replica in self._source.replicas()
            if replica.model == model
            and replica.state == "ready"
            and replica.name not in avoid
            and (needs_nothing or can_serve(replica, needs))
            and (continues_from is None or _can_continue(replica, continues_from))
        }
        now_s = time.monotonic()
        names = self._breakers.admitted(list(able), now_s, allow_open_breakers=allow_open_breakers)
        ranked = self._ranker.rank(self._candidates([able[name] for name in names], now_s))
        return ranked[0].replica if ranked else None

    def _candidates(self, replicas: Sequence[Replica], now_s: float) -> list[Candidate]:
        num_here, order = self._leases.num_in_flight, self._breakers.order_among_equals
        peers, default = self._peers, self._settings.max_in_flight
        return [
            Candidate(
                replica,
                num_here(name := replica.name),
                0 if peers is None else peers.num_in_flight(name),
                replica.max_in_flight or default,
                order(name, now_s),
            )
            for replica in replicas
        ]


def _can_continue(replica: Replica, first: Replica) -> bool:
    if not replica.reports_token_ids:
        return False
    if first.max_model_len is None or replica.max_model_len is None:
        return True
    return replica.max_model_len >= first.max_model_len
