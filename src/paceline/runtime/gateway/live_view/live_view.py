"""`LiveView`: takes a snapshot each second, keeps the history, and streams it to viewers.

The only module here with a clock. It reads what the gateway already knows; the governors answer on
their control channels and the worker processes send their metrics, as for a scrape of /metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)

import msgspec

from paceline.runtime.gateway.fleet import Fleet
from paceline.runtime.gateway.http.errors import Problem, Refusal
from paceline.runtime.gateway.live_view.documents import render_history, render_update
from paceline.runtime.gateway.live_view.events import EventFinder
from paceline.runtime.gateway.live_view.history import History
from paceline.runtime.gateway.live_view.readings import read_traffic
from paceline.runtime.gateway.live_view.replica_views import ReplicaReading
from paceline.runtime.gateway.live_view.snapshot import Gathered, SnapshotMaker
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples, add_samples
from paceline.runtime.gateway.proxy.lease import Traffic
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.signals import ReplicaSignals
from paceline.runtime.gateway.time_limits import LIVE_VIEW_FIRST_S, LIVE_VIEW_PERIOD_S

logger = logging.getLogger(__name__)

MAX_VIEWERS = 32
"""Streams at a time. Chosen empirically: each costs an encoded history once, then a write per
second of bytes that all share."""
_MAX_LATE_UPDATES = 5
"""A viewer that has missed more is dropped: nothing is buffered for it."""

FetchGovernors = Callable[[], Awaitable[Mapping[str, Mapping[str, object]]]]
FetchSamples = Callable[[], Awaitable[Sequence[FamilyOfSamples]]]

_TOO_MANY_VIEWERS = Problem(
    503,
    f"{MAX_VIEWERS} viewers watch already, the most at a time; close one, or try again later.",
    "too_many_viewers",
    retry_after_s=5,
)
_ENDED = Problem(503, "The gateway is stopping.", "server_stopping", retry_after_s=1)
_NO_SNAPSHOT = Problem(
    503,
    f"There is no snapshot after {LIVE_VIEW_FIRST_S:g} s. The gateway's log says why none can be "
    "taken.",
    "no_snapshot",
    retry_after_s=5,
)


class LiveView:
    """The history, and the streams that follow it."""

    def __init__(
        self,
        fleet: Fleet,
        traffic: Traffic,
        metrics: GatewayMetrics,
        fetch_governors: FetchGovernors,
        fetch_worker_samples: FetchSamples,
    ) -> None:
        """`fetch_governors` returns the states by replica, without those that did not answer."""
        self._fleet = fleet
        self._traffic = traffic
        self._metrics = metrics
        self._fetch_governors = fetch_governors
        self._fetch_worker_samples = fetch_worker_samples
        self._maker = SnapshotMaker()
        self._finder = EventFinder()
        self._history = History()
        self._run_id = secrets.token_hex(4)
        """Part of the id of every event, so that a client notices another process."""
        self._encoded: deque[tuple[int, bytes]] = deque(maxlen=_MAX_LATE_UPDATES)
        """The last updates, as all viewers get them."""
        self._encoded_history = b""
        """That of the newest snapshot, once a viewer has asked for it."""
        self._changed = asyncio.Event()
        self._is_ended = False
        self.num_viewers = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take snapshots until the block ends; then end all streams."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self.end_streams()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def end_streams(self) -> None:
        """End all streams and refuse new ones; clients reconnect to the process that follows."""
        self._is_ended = True
        self._notify()

    async def take_snapshot(self) -> None:
        """Read everything once, and publish it."""
        snapshot = self._maker.make(await self._gather())
        last = self._history.last
        events = self._finder.find(None if last is None else last.snapshot, snapshot)
        update = self._history.next_update(snapshot, events)
        # Encoded before it is kept: one that cannot be sent leaves no gap in the numbers.
        encoded = self._event(update.number, msgspec.json.encode(render_update(update)))
        self._history.add(snapshot, events)
        self._encoded_history = b""
        self._encoded.append((update.number, encoded))
        self._notify()

    async def document(self) -> bytes:
        """The history in JSON, once there is a snapshot. Encoded once for all who ask for it.

        Raises `Refusal` while the gateway stops, and when no snapshot comes.
        """
        try:
            async with asyncio.timeout(LIVE_VIEW_FIRST_S):
                await self._wait_for(1)
        except TimeoutError:
            raise Refusal(_NO_SNAPSHOT) from None
        if not self._encoded_history:
            self._encoded_history = msgspec.json.encode(render_history(self._history))
        return self._encoded_history

    async def stream(self) -> AsyncGenerator[bytes]:
        """Server-sent events: the history, then every update. Ends for a viewer that is too late.

        Raises `Refusal` before the first event, as `document`, and if there are too many viewers.
        """
        if self.num_viewers >= MAX_VIEWERS:
            raise Refusal(_TOO_MANY_VIEWERS)
        self.num_viewers += 1
        try:
            document = await self.document()
            assert self._history.last is not None
            number = self._history.last.number
            yield b"retry: 1000\n" + self._event(number, document, "history")
            with contextlib.suppress(Refusal):
                while True:
                    await self._wait_for(number + 1)
                    late = [(n, event) for n, event in self._encoded if n > number]
                    if late[0][0] != number + 1:
                        logger.info("a viewer of the dashboard reads too slowly and is dropped")
                        return
                    number = late[-1][0]
                    yield b"".join(event for _, event in late)
        finally:
            self.num_viewers -= 1

    async def _run(self) -> None:
        while True:
            started_at_s = time.monotonic()
            try:
                await self.take_snapshot()
            except Exception:
                logger.exception("the live view failed to take a snapshot; the next one follows")
            took_s = time.monotonic() - started_at_s
            await asyncio.sleep(max(0.0, LIVE_VIEW_PERIOD_S - took_s))

    async def _gather(self) -> Gathered:
        governors, of_workers = await asyncio.gather(
            self._fetch_governors(), self._fetch_worker_samples()
        )
        signals, breakers = self._fleet.signals(), self._traffic.breaker_states()
        loads = self._fleet.loads()
        readings = []
        for status in self._fleet.statuses():
            name = status.replica.name
            readings.append(
                ReplicaReading(
                    status,
                    signals.get(name, ReplicaSignals()),
                    self._traffic.num_in_flight(name),
                    breakers.get(name, BreakerState.CLOSED),
                    governors.get(name),
                    is_load_current=name in loads,
                )
            )
        families = add_samples([self._metrics.samples(), of_workers])
        return Gathered(time.time(), readings, read_traffic(families, time.monotonic()))

    async def _wait_for(self, number: int) -> None:
        """Return when there is an update of this number. Raises `Refusal` once streams end."""
        while True:
            if self._is_ended:
                raise Refusal(_ENDED)
            last = self._history.last
            if last is not None and last.number >= number:
                return
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _event(self, number: int, data: bytes, name: str = "update") -> bytes:
        return b"event: %s\nid: %s-%d\ndata: %s\n\n" % (
            name.encode(), self._run_id.encode(), number, data,
        )  # fmt: skip
