"""`SeveralReplicas`: a `SlotSource` over replicas whose quotas a test sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestPlan
from unit.gateway.admission.plans import UNDRAFTED


class Claim:
    """Slots of one replica."""

    def __init__(self, source: SeveralReplicas, name: str, num_sequences: int) -> None:
        self.replica = Replica(name, f"/{name}.sock", "m", "ready")
        self._source, self._num_sequences = source, num_sequences

    def withdraw(self) -> None:
        self._source.hold(self.replica.name, -self._num_sequences)
        self._num_sequences = 0


@dataclass
class SeveralReplicas:
    """The first replica with room takes a request. Those in `drafting` serve no undrafted ones."""

    current: dict[str, SlotQuota]
    drafting: Collection[str] = ()
    num_held: dict[str, int] = field(default_factory=dict)

    def hold(self, name: str, num_sequences: int) -> None:
        self.num_held[name] = self.num_held.get(name, 0) + num_sequences

    def take(self, plan: RequestPlan, spared: Collection[str]) -> Claim | None:
        for name, quota in self.quotas(plan.needs.kind).items():
            if name not in spared and quota.num_free >= plan.cost.num_sequences:
                self.hold(name, plan.cost.num_sequences)
                return Claim(self, name, plan.cost.num_sequences)
        return None

    def quotas(self, kind: NeedsKind) -> Mapping[str, SlotQuota]:
        return {
            name: replace(quota, num_held=self.num_held.get(name, 0))
            for name, quota in self.current.items()
            if not (kind == UNDRAFTED.kind and name in self.drafting)
        }
