"""`ReplicaSlots`: take the slots of one model's replicas for new requests.

The router decides which replica; taking its slots and opening the lease of the first attempt are
one step, so the next decision sees them taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, Protocol, TypeVar

from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestCost, RequestPlan
from paceline.runtime.gateway.routing.router import Router

L = TypeVar("L", covariant=True)


class Leases(Protocol[L]):
    """Opens leases."""

    def claim(self, replica: Replica, cost: RequestCost) -> L:
        """An open lease: its cost counts from now on."""
        ...


class ReplicaSlots(Generic[L]):
    """The slots of the replicas of one queue: `model` is that of `RequestPlan.queue`. Answers from
    memory."""

    def __init__(self, model: str, router: Router, leases: Leases[L]) -> None:
        self._model = model
        self._router = router
        self._leases = leases

    def take(self, plan: RequestPlan, spared: Collection[str]) -> L | None:
        """An open lease at the best replica with room for the request, in this process's quota.

        Replicas named in `spared` are left out. None when no replica has room.
        """
        replica = self._router.choose_with_room(plan.model, plan.needs.kind, plan.cost, spared)
        return None if replica is None else self._leases.claim(replica, plan.cost)

    def quotas(self, kind: NeedsKind) -> Mapping[str, SlotQuota]:
        """The quotas of the replicas that could take requests with these needs now, by name."""
        return self._router.quotas(self._model, kind)
