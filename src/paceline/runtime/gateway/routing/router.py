"""`Router`: choose the replica of one attempt.

It filters (model, state, what the request needs, the breaker, free slots) and has a
`ReplicaRanker` order the rest. A decision on values as of now: it neither suspends nor changes
anything. The lease that follows raises the count in flight before the next decision, so a burst
does not go to one replica.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from paceline.runtime.gateway.peers import NoPeerWorkers, PeerWorkers, SlotQuota
from paceline.runtime.gateway.replicas import Replica, ReplicaSource, max_tokens_of, num_slots_of
from paceline.runtime.gateway.requests.capabilities import serves_kind
from paceline.runtime.gateway.requests.needs import Needs, NeedsKind
from paceline.runtime.gateway.requests.plan import RequestCost
from paceline.runtime.gateway.routing.breaker import Breakers, OpenBreakers
from paceline.runtime.gateway.routing.ranker import Candidate, ReplicaRanker
from paceline.runtime.gateway.routing.rankers import DEFAULT_RANKER
from paceline.runtime.gateway.settings import AdmissionSettings
from paceline.runtime.gateway.signals import NoSignals, SignalSource

_UNDECIDED_WEIGHT = 4
"""An attempt that failed counts as this many sequences while it is not known whose fault it was.
With 1, a replica that fails at once would be as loaded as the one that serves its requests then.
Chosen empirically: of the requests that arrive meanwhile, one in five goes there."""


class CostsInFlight(Protocol):
    """What this process has in flight at each replica. Answers from memory."""

    def num_sequences(self, replica_name: str) -> int: ...

    def cost(self, replica_name: str) -> RequestCost: ...


class Router:
    """Chooses among the replicas of one source."""

    def __init__(
        self,
        source: ReplicaSource,
        leases: CostsInFlight,
        breakers: Breakers,
        settings: AdmissionSettings,
        peers: PeerWorkers | None = None,
        signals: SignalSource | None = None,
        ranker: ReplicaRanker | None = None,
    ) -> None:
        """`leases` counts for this process, `peers` for the others on the data port, if any."""
        self._source = source
        self._leases = leases
        self._peers = peers or NoPeerWorkers()
        self._signals = signals or NoSignals()
        self._breakers = breakers
        self._settings = settings
        self._ranker = ranker or DEFAULT_RANKER()

    def quotas(self, model: str, needs: NeedsKind) -> Mapping[str, SlotQuota]:
        """This process's quotas of the ready replicas that serve such requests and whose breaker
        admits requests, or of all of them when none does."""
        able = self._able(model, needs)
        admitted = self._breakers.admitted(list(able), time.monotonic())
        return {name: self._quota(able[name]) for name in admitted}

    def choose_with_room(
        self, model: str, needs: NeedsKind, cost: RequestCost, avoid: Collection[str]
    ) -> Replica | None:
        """The best replica for a new request among those of `quotas` that have room for its cost;
        None when none has. Replicas named in `avoid` are left out."""
        able, now_s = self._able(model, needs), time.monotonic()
        with_room = [
            replica
            for name in self._breakers.admitted(list(able), now_s)
            if name not in avoid and self._has_room(replica := able[name], cost)
        ]
        return self._best(with_room, now_s)

    def choose(
        self,
        model: str,
        needs: Needs,
        avoid: Collection[str] = (),
        *,
        otherwise: OpenBreakers = OpenBreakers.ANY,
        continues_from: Replica | None = None,
    ) -> Replica | None:
        """The replica for the next attempt of an admitted request; None when there is none.

        Slots are no condition: a request that was admitted is not lost for want of one. Replicas
        named in `avoid` are left out. `otherwise` decides when no breaker admits a request. To
        continue a stream that `continues_from` began, a replica must serve the same revision of the
        model, report token ids too, and have as long a context.
        """
        able = {
            name: replica
            for name, replica in self._able(model, needs.kind).items()
            if name not in avoid
            and (continues_from is None or _can_continue(replica, continues_from))
        }
        now_s = time.monotonic()
        names = self._breakers.admitted(list(able), now_s, otherwise=otherwise)
        return self._best([able[name] for name in names], now_s)

    def _able(self, model: str, needs: NeedsKind) -> dict[str, Replica]:
        """The ready replicas of the model that can do what is needed, by name."""
        needs_nothing = not any(needs)
        return {
            replica.name: replica
            for replica in self._source.replicas()
            if replica.serves(model)
            and replica.state == "ready"
            and (needs_nothing or serves_kind(replica, needs))
        }

    def _quota(self, replica: Replica) -> SlotQuota:
        quota = self._peers.slot_quota(replica.name, num_slots_of(replica, self._settings))
        return replace(quota, num_held=self._leases.num_sequences(replica.name))

    def _has_room(self, replica: Replica, cost: RequestCost) -> bool:
        """Whether the replica has slots free for all sequences, and room for all tokens.

        This process may use the same fraction of the tokens as of the slots. A request that exceeds
        that alone has room where nothing else is in flight.
        """
        num_slots = num_slots_of(replica, self._settings)
        limit = self._peers.slot_quota(replica.name, num_slots).limit
        used = self._leases.cost(replica.name)
        if used.num_sequences + cost.num_sequences > limit:
            return False
        max_tokens = max_tokens_of(replica, self._settings)
        if max_tokens is None or not used.num_sequences:
            return True
        return used.num_tokens + cost.num_tokens <= max_tokens * limit // num_slots

    def _best(self, replicas: Sequence[Replica], now_s: float) -> Replica | None:
        num_here, order = self._leases.num_sequences, self._breakers.order_among_equals
        num_undecided = self._breakers.num_undecided
        num_at_peers, settings = self._peers.num_held, self._settings
        signals = self._signals.signals()
        candidates = [
            Candidate(
                replica,
                num_here(name := replica.name) + _UNDECIDED_WEIGHT * num_undecided(name),
                num_at_peers(name),
                num_slots_of(replica, settings),
                order(name, now_s),
                signals.get(name),
            )
            for replica in replicas
        ]
        ranked = self._ranker.rank(candidates)
        return ranked[0].replica if ranked else None


def _can_continue(replica: Replica, first: Replica) -> bool:
    if not replica.reports_token_ids or replica.revision != first.revision:
        return False
    if first.max_model_len is None or replica.max_model_len is None:
        return True
    return replica.max_model_len >= first.max_model_len
