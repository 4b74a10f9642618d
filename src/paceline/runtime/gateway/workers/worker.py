"""The program of a worker process, from its first message to its exit.

It serves its part of the data port as a single-process gateway would, but gets the replicas and
the state of its peers from the parent process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence

from paceline.foundation.machine.rare_garbage_collection import rare_garbage_collection
from paceline.runtime.gateway.capture.results import CaptureUnusable
from paceline.runtime.gateway.data_port import DataPort
from paceline.runtime.gateway.keys.record import KeysUnusable
from paceline.runtime.gateway.leaving_notice import LeavingNotice, PortAddress
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.signals import ReplicaSignals
from paceline.runtime.gateway.time_limits import PROGRESS_REPORT_PERIOD_S, WORKER_ORPHAN_EXIT_S
from paceline.runtime.gateway.workers.channel import Channel
from paceline.runtime.gateway.workers.messages import (
    CutHung,
    Discourage,
    MetricsReport,
    MetricsRequest,
    PeerState,
    ReplicaList,
    Setup,
    SignalUpdate,
    Stop,
    ToParent,
    ToWorker,
    WorkerProgress,
    WorkerReady,
    WorkerReport,
    WorkerUnfit,
)
from paceline.runtime.gateway.workers.peer_view import PeerWorkerView

logger = logging.getLogger(__name__)

_REPORT_PERIOD_S = 0.02
"""Time between two reports to the parent; see `pool`."""


async def run_worker(parent: socket.socket, listener: socket.socket) -> int:
    """Serve until the parent sends `Stop` or ends; returns the exit code."""
    channel: Channel[ToWorker, ToParent] = await Channel.over(parent, ToWorker)
    setup = await channel.receive()
    if setup is None:
        return 1
    assert isinstance(setup, Setup)
    worker = _Worker(channel, setup)
    try:
        await worker.serve(listener)
    except (CaptureUnusable, KeysUnusable) as error:
        channel.send(WorkerUnfit(str(error)))
        return 1
    finally:
        await channel.finish()
    return 0


class _Worker:
    """State of the worker; also the `LiveReplicas` of its data port."""

    def __init__(self, channel: Channel[ToWorker, ToParent], setup: Setup) -> None:
        self._channel = channel
        self._metrics = GatewayMetrics(f"worker-{setup.worker_index}")
        self._peers = PeerWorkerView()
        self._port = DataPort(setup.settings, self._metrics, self._peers, setup.gateway_id)
        self._replicas = ReplicaList(0, ())
        self._signals: Mapping[str, ReplicaSignals] = {}
        self._has_peer_state = asyncio.Event()
        self._must_stop = asyncio.Event()
        self._last_report = WorkerReport()

    def replicas(self) -> Sequence[Replica]:
        return self._replicas.replicas

    def signals(self) -> Mapping[str, ReplicaSignals]:
        return self._signals

    async def serve(self, listener: socket.socket) -> None:
        leaving = LeavingNotice([PortAddress.of(*listener.getsockname()[:2])])
        listening = asyncio.create_task(self._listen())
        reporting = asyncio.create_task(self._report_periodically())
        watching = asyncio.create_task(self._report_progress_periodically())
        stopping = asyncio.create_task(self._must_stop.wait())
        tasks = (listening, reporting, watching, stopping)
        try:
            await self._has_peer_state.wait()
            async with self._port.serving(self, listener) as server:
                self._report()
                self._channel.send(WorkerReady())
                with rare_garbage_collection():
                    await asyncio.wait({server, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (server, *tasks):
                        if task.done():
                            task.result()
                if listening.done():  # without the parent, a new gateway waits for this worker
                    leaving.announce()
            self._report()
            self._send_metrics()
        finally:
            for task in tasks:
                task.cancel()

    async def _listen(self) -> None:
        while (message := await self._channel.receive()) is not None:
            match message:
                case ReplicaList():
                    self._replicas = message
                case SignalUpdate():
                    self._signals = message.signals
                case PeerState():
                    self._peers.update(message)
                    self._has_peer_state.set()  # the parent sends the replicas first
                    if self._port.admissions is not None:
                        self._port.admissions.recheck()
                    self._report()  # at once: other workers wait for slots that this one lost
                case MetricsRequest():
                    self._send_metrics()
                case CutHung():
                    self._port.cut_hung(message.replica)
                case Discourage():
                    self._port.discourage(is_accepting=message.is_accepting)
                case Stop():
                    if message.at_once:
                        self._port.cut()
                    self._must_stop.set()
        # The parent has ended: nothing polls the replicas any more.
        logger.error("the gateway's parent process is gone; this worker exits")
        self._port.cut()
        self._must_stop.set()
        asyncio.get_running_loop().call_later(WORKER_ORPHAN_EXIT_S, os._exit, 1)

    async def _report_periodically(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_PERIOD_S)
            self._report()
            await self._channel.drain()

    async def _report_progress_periodically(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_REPORT_PERIOD_S)
            self._channel.send(WorkerProgress(self._port.traffic.progress()))

    def _report(self) -> None:
        """Send a report if anything has changed since the last one."""
        if self._port.admissions is None:
            return  # not serving yet
        leases, admissions = self._port.traffic, self._port.admissions
        num_held = {name: cost.num_sequences for name, cost in leases.costs().items()}
        report = WorkerReport(
            replicas_version=self._replicas.version,
            peers_version=self._peers.state.version,
            in_flight=leases.in_flight(),
            demands=admissions.demands(num_held),
            queue_lengths=admissions.queue_lengths(),
            breakers=dict(leases.breaker_states()),
        )
        if report != self._last_report:
            self._last_report = report
            self._channel.send(report)

    def _send_metrics(self) -> None:
        self._report()  # requests that the metrics count as ended must not seem to be in flight
        self._channel.send(MetricsReport(self._metrics.samples()))
