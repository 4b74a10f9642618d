"""`ObservedQueue`: an admission queue before one replica whose slots a test sets, with what it
reported."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from paceline.runtime.gateway.admission import RefusalReason
from paceline.runtime.gateway.admission.queue import AdmissionQueue, Slot
from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestPlan
from paceline.runtime.gateway.settings import AdmissionSettings
from unit.gateway.admission.plans import plan

REPLICA = Replica("r0", "/r0.sock", "m", "ready")


class Claim:
    """Slots of the one replica."""

    def __init__(self, replica: OneReplica, num_sequences: int) -> None:
        self.replica = REPLICA
        self._slots, self._num_sequences = replica, num_sequences

    def withdraw(self) -> None:
        self._slots.num_held -= self._num_sequences
        self._num_sequences = 0


class OneReplica:
    """A `SlotSource` of one replica; without slots it has none."""

    def __init__(self, observed: ObservedQueue) -> None:
        self._observed = observed
        self.num_held = 0

    def take(self, plan: RequestPlan, spared: Collection[str]) -> Claim | None:
        num_sequences = plan.cost.num_sequences
        if REPLICA.name in spared or self.num_held + num_sequences > self._observed.num_slots:
            return None
        self.num_held += num_sequences
        return Claim(self, num_sequences)

    def quotas(self, kind: NeedsKind) -> Mapping[str, SlotQuota]:
        num_slots = self._observed.num_slots
        quota = SlotQuota(num_slots, num_slots, num_held=self.num_held)
        return {REPLICA.name: quota} if num_slots else {}


@dataclass
class ObservedQueue:
    """The test sets `num_slots`; `length` and `refused` sum up what the observer received."""

    settings: AdmissionSettings = field(
        default_factory=lambda: AdmissionSettings(max_queue=8, max_queue_wait_s=10)
    )
    num_slots: int = 1
    length: int = 0
    models: list[str] = field(default_factory=list)
    """Those that have a queue, of `AdmissionQueues`."""
    refused: Counter[RefusalReason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.queue = AdmissionQueue(self.settings, OneReplica(self), self)

    def of_model(self, model: str) -> ObservedQueue:
        self.models.append(model)
        return self

    def model_left(self, model: str) -> None:
        self.models.remove(model)

    def queue_changed(self, by: int) -> None:
        self.length += by

    def admission_refused(self, reason: RefusalReason) -> None:
        self.refused[reason] += 1

    def enter(self, order: list[str], name: str, hold_s: float = 0.0) -> asyncio.Task[None]:
        """Start a request that adds its name to `order` when it is admitted."""

        async def request() -> None:
            async with self.slot():
                order.append(name)
                await asyncio.sleep(hold_s)  # sleep: in simulated time wherever it is above 0

        return asyncio.ensure_future(request())

    def slot(self, time_left_s: float = 60.0) -> Slot[Claim]:
        return self.queue.slot(plan(), time_left_s)

    @asynccontextmanager
    async def full(self) -> AsyncIterator[None]:
        """Hold all slots."""
        slots = [self.slot() for _ in range(self.num_slots)]
        for slot in slots:
            await slot.__aenter__()
        yield
        for slot in slots:
            await slot.__aexit__(None, None, None)

    def assert_empty(self) -> None:
        assert repr(self.queue) == "AdmissionQueue(num_held=0, num_waiting=0)"
        assert self.length == 0
