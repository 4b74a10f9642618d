"""The parent's side of the data port: start the workers, keep them running, exchange state.

The workers inherit the listening socket, so the kernel gives each new connection to a worker that
is ready to accept one. A worker that exits is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Sequence

from paceline.runtime.gateway.data_port import LiveReplicas
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples
from paceline.runtime.gateway.replicas import num_slots_by_name
from paceline.runtime.gateway.routing.stream_progress import ProgressReport
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import (
    WORKER_DRAIN_MARGIN_S,
    WORKER_EXIT_TIMEOUT_S,
    WORKER_METRICS_TIMEOUT_S,
)
from paceline.runtime.gateway.workers.slot_allocator import SlotAllocator
from paceline.runtime.gateway.workers.worker_process import (
    WorkerFailed,
    WorkerProcess,
    explain_exit,
)
from paceline.runtime.gateway.workers.worker_totals import (
    PoolTraffic,
    VersionedReplicas,
    WorkerTotals,
)

logger = logging.getLogger(__name__)

_EXCHANGE_PERIOD_S = 0.02
"""Time between two updates of the workers. Chosen empirically: with the same period in the worker
and the transfer, a change in one worker reaches the others within about 50 ms."""
_MIN_RESTART_DELAY_S = 0.2
_MAX_RESTART_DELAY_S = 30.0
"""The delay before a restart doubles with each one, between these bounds. Chosen empirically."""
_STABLE_AFTER_S = 60.0
"""After a worker has run this long, its next restart delay is the shortest again. Chosen
empirically."""


class WorkerPool:
    """The data port, served by worker processes."""

    def __init__(self, settings: GatewaySettings, metrics: GatewayMetrics, gateway_id: str) -> None:
        """`gateway_id` is that of the gateway (`gateway.hops`)."""
        self._gateway_id = gateway_id
        self._settings = settings
        self._metrics = metrics
        self._totals = WorkerTotals(settings.workers)
        self._replicas = VersionedReplicas()
        self._allocator = SlotAllocator(settings.workers)
        self.traffic = PoolTraffic(self._totals, self._replicas)
        self._running: dict[int, WorkerProcess] = {}
        """By worker index."""
        self._has_started = False
        self._is_stopping = False

    async def worker_samples(
        self, within_s: float = WORKER_METRICS_TIMEOUT_S
    ) -> Sequence[FamilyOfSamples]:
        """The current metrics of all workers; the last known ones of a worker that is slow."""
        refreshing = [asyncio.create_task(w.refresh_metrics()) for w in self._running.values()]
        if refreshing:
            _, late = await asyncio.wait(refreshing, timeout=within_s)
            for task in late:
                task.cancel()
        return self._totals.samples()

    def progress_reports(self) -> Sequence[ProgressReport]:
        """The progress of the open attempts, one report for each worker."""
        return self._totals.progress_reports()

    def cut_hung(self, replica_name: str) -> None:
        """End all attempts on a replica that was found hung, and open its breakers."""
        for worker in self._running.values():
            worker.cut_hung(replica_name)

    def discourage(self, *, is_accepting: bool = True) -> None:
        """Serve on, but have clients leave (`DataPort.discourage`).

        A worker that exits from here on is not started again.
        """
        self._is_stopping = True
        for worker in self._running.values():
            worker.discourage(is_accepting=is_accepting)

    @contextlib.asynccontextmanager
    async def serving(
        self, source: LiveReplicas, listener: socket.socket
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Serve until the block ends; then let the workers drain, at most `drain_timeout_s`.

        Owns the socket from here on. Raises `WorkerFailed` if a worker does not start. The task
        ends by itself only when the pool fails.
        """
        self.traffic.set_source(source)
        exchanging = asyncio.create_task(self._exchange_periodically(source))
        keeping = [
            asyncio.create_task(self._keep_running(worker_index, listener))
            for worker_index in range(self._settings.workers)
        ]
        failing = asyncio.create_task(_wait_first([exchanging, *keeping]))
        try:
            await self._wait_started(failing)
            yield failing
        finally:
            failing.cancel()
            self._is_stopping = True
            listener.close()  # while it is open, new clients would wait instead of being refused
            try:
                await self._end(keeping)
            finally:  # also when a second signal cancels this
                exchanging.cancel()
                await asyncio.gather(exchanging, failing, return_exceptions=True)

    async def _exchange_periodically(self, source: LiveReplicas) -> None:
        while True:
            replicas, signals = self._replicas.update(source.replicas()), source.signals()
            slots = self._allocator.allocate(
                num_slots_by_name(replicas.replicas, self._settings.admission),
                self._totals.reports,
            )
            for worker_index, worker in self._running.items():
                worker.check()
                worker.send_replicas(replicas)
                worker.send_signals(signals)
                version = worker.send_peer_state(
                    slots[worker_index], self._totals.queue_lengths_of_peers(worker_index)
                )
                if version is not None:
                    self._allocator.sent(worker_index, version, slots[worker_index])
            await asyncio.sleep(_EXCHANGE_PERIOD_S)

    async def _wait_started(self, failing: asyncio.Task[None]) -> None:
        while not self._has_started:
            if failing.done():
                failing.result()
            await asyncio.sleep(_EXCHANGE_PERIOD_S)
            num_serving = sum(worker.has_served for worker in self._running.values())
            self._has_started = num_serving == self._settings.workers

    async def _keep_running(self, worker_index: int, listener: socket.socket) -> None:
        """Run a worker with this index, and start a new one whenever it exits."""
        delay_s = _MIN_RESTART_DELAY_S
        while not self._is_stopping:
            started_at_s = time.monotonic()
            try:
                worker = await WorkerProcess.start(
                    worker_index, self._settings, listener, self._totals, self._gateway_id
                )
            except OSError as error:  # no memory or no process left, which may pass
                event, num_lost = f"could not be started: {error}", 0
            else:
                self._running[worker_index] = worker
                try:
                    if self._is_stopping:
                        worker.stop()
                    code = await worker.run()
                finally:
                    del self._running[worker_index]
                    num_lost = self._totals.worker_ended(worker_index)
                    self._allocator.worker_ended(worker_index)
                event = explain_exit(code)
                if worker.unfit_reason is not None:
                    event = f"cannot serve: {worker.unfit_reason}"
                elif not worker.has_served:
                    event += " before it served; see its messages in the log"
            if self._is_stopping:
                return
            if not self._has_started:
                raise WorkerFailed(f"a worker process of the data port {event}")
            if time.monotonic() - started_at_s > _STABLE_AFTER_S:
                delay_s = _MIN_RESTART_DELAY_S
            logger.error(
                "gateway worker %d %s; %d requests in flight are lost; restarting in %g s",
                worker_index, event, num_lost, delay_s,
            )  # fmt: skip
            self._metrics.worker_restarted()
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _MAX_RESTART_DELAY_S)

    async def _end(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """Let all workers drain, or stop them at once when cancelled; kill those that are late."""
        try:
            if self._has_started:
                for worker in self._running.values():
                    worker.stop()
                for worker_index, task in enumerate(keeping):
                    if worker_index not in self._running:
                        task.cancel()
                timeout_s = self._settings.drain_timeout_s + WORKER_DRAIN_MARGIN_S
                await asyncio.wait(keeping, timeout=timeout_s)
        except asyncio.CancelledError:
            for worker in self._running.values():
                worker.stop(at_once=True)
            await asyncio.wait(keeping, timeout=WORKER_EXIT_TIMEOUT_S)
            raise
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)


async def _wait_first(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the first task to end; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
