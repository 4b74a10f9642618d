"""`ObservedQueue`: an admission queue whose capacity a test sets, with what it reported."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from paceline.gateway.admission import RefusalReason
from paceline.gateway.admission.queue import AdmissionQueue
from paceline.gateway.settings import AdmissionSettings


@dataclass
class ObservedQueue:
    """The test sets `num_slots`; `length` and `refused` sum up what the observer received."""

    settings: AdmissionSettings = field(
        default_factory=lambda: AdmissionSettings(max_queue=8, max_queue_wait_s=10)
    )
    num_slots: int = 1
    length: int = 0
    refused: Counter[RefusalReason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.queue = AdmissionQueue(self.settings, lambda: self.num_slots, self)

    def queue_changed(self, by: int) -> None:
        self.length += by

    def admission_refused(self, reason: RefusalReason) -> None:
        self.refused[reason] += 1

    def enter(self, order: list[str], name: str, hold_s: float = 0.0) -> asyncio.Task[None]:
        """Start a request that adds its name to `order` when it is admitted."""

        async def request() -> None:
            async with self.queue.slot(60.0):
                order.append(name)
                await asyncio.sleep(hold_s)

        return asyncio.ensure_future(request())

    @asynccontextmanager
    async def full(self) -> AsyncIterator[None]:
        """Hold all slots."""
        slots = [self.queue.slot(60.0) for _ in range(self.num_slots)]
        for slot in slots:
            await slot.__aenter__()
        yield
        for slot in slots:
            await slot.__aexit__(None, None, None)

    def assert_empty(self) -> None:
        assert repr(self.queue) == "AdmissionQueue(num_held=0, num_waiting=0)"
        assert self.length == 0
