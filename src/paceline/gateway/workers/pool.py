"""How do several processes serve the data port?

The head's side: as many workers as the settings ask for, each started again when it ends. They
inherit the listening socket, so whichever has time takes the next connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence

from paceline.gateway.admission.slots import num_slots_by_model
from paceline.gateway.metrics.metrics import GatewayMetrics
from paceline.gateway.metrics.samples import FamilyOfSamples
from paceline.gateway.replicas import ReplicaSource
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.workers.allotment import Allotment
from paceline.gateway.workers.snapshots import Snapshots, WorkersTraffic
from paceline.gateway.workers.totals import Totals
from paceline.gateway.workers.worker_process import (
    EXIT_S,
    WorkerFailed,
    WorkerProcess,
    explain_exit,
)

logger = logging.getLogger(__name__)

_PERIOD_S = 0.02
"""News are passed on so often. Chosen by hand: with as much in the worker and the way in between,
a worker's numbers reach the others within about 50 ms."""
_ANSWER_TIMEOUT_S = 3.0
"""A scrape waits so long for the workers' counts; of one that is late the last ones are shown.
Chosen by hand: Prometheus waits ten seconds."""
_END_S = 5.0
"""What draining may take beyond its own time. Chosen by hand."""
_MIN_PAUSE_S = 0.2
_MAX_PAUSE_S = 30.0
"""Before a worker is started again; twice as long each time, at most this. Chosen by hand."""
_WELL_AFTER_S = 60.0
"""A worker that served for so long was well: the pause is the shortest again. Chosen by hand."""


class WorkerPool:
    """The data port, served by workers."""

    def __init__(self, settings: GatewaySettings, metrics: GatewayMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._totals = Totals(settings.workers)
        self._snapshots = Snapshots()
        self._allotment = Allotment(settings.workers)
        self.ledger = WorkersTraffic(self._totals, self._snapshots)
        self._running: dict[int, WorkerProcess] = {}
        self._has_started = False
        self._is_stopping = False

    async def samples_elsewhere(self) -> Sequence[FamilyOfSamples]:
        """What all workers have counted, as of now; as told last where one does not answer."""
        asking = [asyncio.create_task(one.ask()) for one in self._running.values()]
        if asking:
            _, late = await asyncio.wait(asking, timeout=_ANSWER_TIMEOUT_S)
            for task in late:
                task.cancel()
        return self._totals.samples()

    @contextlib.asynccontextmanager
    async def serving(
        self, source: ReplicaSource, listener: socket.socket, on_hung: Callable[[str], None]
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Serve until the block ends; then have the workers drain, at most `drain_timeout_s`.

        Takes the socket over. Raises `WorkerFailed` where a worker cannot even start. The task
        ends by itself only by a fault of ours.
        """
        self.ledger.goes_by(source)
        telling = asyncio.create_task(self._tell_often(source))
        places = [
            asyncio.create_task(self._fill(place, listener, on_hung))
            for place in range(self._settings.workers)
        ]
        failing = asyncio.create_task(_first_to_fail([telling, *places]))
        try:
            await self._wait_started(failing)
            yield failing
        finally:
            failing.cancel()
            self._is_stopping = True
            listener.close()  # open here, it would have new clients wait instead of refusing them
            try:
                await self._end(places)
            finally:  # also when it is cancelled by a second signal
                telling.cancel()
                await asyncio.gather(telling, failing, return_exceptions=True)

    async def _tell_often(self, source: ReplicaSource) -> None:
        while True:
            replicas = self._snapshots.take(source.replicas())
            parts = self._allotment.deal(
                num_slots_by_model(replicas.replicas, self._settings.admission),
                self._totals.reports,
            )
            for place, worker in self._running.items():
                worker.ask_often()
                worker.tell_replicas(replicas)
                in_flight = self._totals.in_flight_elsewhere(place)
                number = worker.tell_elsewhere(in_flight, parts[place])
                if number is not None:
                    self._allotment.told(place, number, parts[place])
            await asyncio.sleep(_PERIOD_S)

    async def _wait_started(self, failing: asyncio.Task[None]) -> None:
        while not self._has_started:
            if failing.done():
                failing.result()
            await asyncio.sleep(_PERIOD_S)
            num_serving = sum(worker.has_served for worker in self._running.values())
            self._has_started = num_serving == self._settings.workers

    async def _fill(
        self,
        place: int,
        listener: socket.socket,
        on_hung: Callable[[str], None],
    ) -> None:
        """Have a worker at this place, again and again."""
        pause_s = _MIN_PAUSE_S
        while not self._is_stopping:
            began_at_s = time.monotonic()
            try:
                worker = await WorkerProcess.start(place, self._settings, listener, self._totals)
            except OSError as error:  # no memory or process left: that may pass
                what, num_lost = f"could not be started: {error}", 0
            else:
                self._running[place] = worker
                try:
                    if self._is_stopping:
                        worker.stop()
                    code = await worker.run(on_hung)
                finally:
                    del self._running[place]
                    num_lost = self._totals.ended(place)
                    self._allotment.ended(place)
                what = explain_exit(code)
                if worker.unfit_because is not None:
                    what = f"cannot serve: {worker.unfit_because}"
                elif not worker.has_served:
                    what += " before it served; what it said of that is in the log"
            if self._is_stopping:
                return
            if not self._has_started:
                raise WorkerFailed(f"a process of the data port {what}")
            if time.monotonic() - began_at_s > _WELL_AFTER_S:
                pause_s = _MIN_PAUSE_S
            logger.error(
                "gateway worker %d %s; %d requests in flight are lost; next start in %g s",
                place, what, num_lost, pause_s,
            )  # fmt: skip
            self._metrics.worker_restarted()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    async def _end(self, places: Sequence[asyncio.Task[None]]) -> None:
        """Have all workers drain, or end at once when cancelled; what takes too long is killed."""
        try:
            if self._has_started:
                for worker in self._running.values():
                    worker.stop()
                for place, task in enumerate(places):
                    if place not in self._running:
                        task.cancel()
                await asyncio.wait(places, timeout=self._settings.drain_timeout_s + _END_S)
        except asyncio.CancelledError:
            for worker in self._running.values():
                worker.stop(at_once=True)
            await asyncio.wait(places, timeout=EXIT_S)
            raise
        finally:
            for task in places:
                task.cancel()
            await asyncio.gather(*places, return_exceptions=True)


async def _first_to_fail(tasks: Sequence[asyncio.Task[None]]) -> None:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
