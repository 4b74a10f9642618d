"""`SlotSource`: the slots of one model's replicas, as the admission queue sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar

from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestPlan


class SlotClaim(Protocol):
    """Slots of one replica, taken for one request."""

    replica: Replica

    def withdraw(self) -> None:
        """Give the slots back, because the request was not sent. No effect once it was."""
        ...


C = TypeVar("C", bound=SlotClaim, covariant=True)


class SlotSource(Protocol[C]):
    """Answers from memory, without suspending."""

    def take(self, plan: RequestPlan, spared: Collection[str]) -> C | None:
        """Take the request's slots at the best replica that has them free, in this process's quota.

        Replicas named in `spared` are left out. None when no replica has the slots.
        """
        ...

    def quotas(self, kind: NeedsKind) -> Mapping[str, SlotQuota]:
        """By name, the quotas of the replicas that could take requests with these needs now."""
        ...
