"""What does a worker do, from its first message to its end?

It serves its part of the data port as a gateway of one process would; the replicas, and what the
others hold, come from the head.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence

from paceline.gateway.collector import collector_spared
from paceline.gateway.data_port import DataPort
from paceline.gateway.keys.record import KeysUnusable
from paceline.gateway.metrics.metrics import GatewayMetrics
from paceline.gateway.replicas import Replica
from paceline.gateway.workers.channel import Channel
from paceline.gateway.workers.messages import (
    Ask,
    Counts,
    Elsewhere,
    Hung,
    Replicas,
    Report,
    Serving,
    Setup,
    Stop,
    ToHead,
    ToWorker,
    Unfit,
)
from paceline.gateway.workers.peer_workers import PeerWorkerView

logger = logging.getLogger(__name__)

_PERIOD_S = 0.02
"""What has changed is told so often; see `pool`."""
_ORPHAN_S = 2.0
"""Without its head a worker is gone within this time, whatever still goes on. Chosen by hand."""


async def work(head: socket.socket, listener: socket.socket) -> int:
    """Serve until the head says stop; returns the exit code. Ends the process with the head."""
    channel: Channel[ToWorker, ToHead] = await Channel.over(head, ToWorker)
    setup = await channel.receive()
    if setup is None:
        return 1
    assert isinstance(setup, Setup)
    worker = _Worker(channel, setup)
    try:
        await worker.serve(listener)
    except KeysUnusable as error:
        channel.send(Unfit(str(error)))
        return 1
    finally:
        await channel.finish()
    return 0


class _Worker:
    """Its state, and the `ReplicaSource` of its requests."""

    def __init__(self, channel: Channel[ToWorker, ToHead], setup: Setup) -> None:
        self._channel = channel
        self._metrics = GatewayMetrics()
        self._neighbourhood = PeerWorkerView()
        self._port = DataPort(setup.settings, self._metrics, self._neighbourhood)
        self._replicas = Replicas(0, ())
        self._knows_others = asyncio.Event()
        self._is_told_to_stop = asyncio.Event()
        self._reported = Report()

    def replicas(self) -> Sequence[Replica]:
        return self._replicas.replicas

    async def serve(self, listener: socket.socket) -> None:
        listening = asyncio.create_task(self._listen())
        reporting = asyncio.create_task(self._report_often())
        stopping = asyncio.create_task(self._is_told_to_stop.wait())
        tasks = (listening, reporting, stopping)
        try:
            await self._knows_others.wait()
            async with self._port.serving(self, listener, self._tell_hung) as server:
                self._report()
                self._channel.send(Serving())
                with collector_spared():
                    await asyncio.wait({server, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (server, *tasks):
                        if task.done():
                            task.result()
            self._report()
            self._send_counts()
        finally:
            for task in tasks:
                task.cancel()

    async def _listen(self) -> None:
        while (message := await self._channel.receive()) is not None:
            match message:
                case Replicas():
                    self._replicas = message
                case Elsewhere():
                    self._neighbourhood.hear(message)
                    self._knows_others.set()  # the replicas came before
                    if self._port.admissions is not None:
                        self._port.admissions.look_again()
                    self._report()  # now: what it gives up, others wait for
                case Ask():
                    self._send_counts()
                case Stop():
                    if message.at_once:
                        self._port.cut()
                    self._is_told_to_stop.set()
        # Nobody watches the replicas any more, or knows of this process.
        logger.error("the gateway's head is gone; this worker ends")
        self._port.cut()
        self._is_told_to_stop.set()
        asyncio.get_running_loop().call_later(_ORPHAN_S, os._exit, 1)

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._report()
            await self._channel.drain()

    def _report(self) -> None:
        """Tell what is held here, if that has changed."""
        if self._port.admissions is None:
            return  # it does not serve yet
        ledger = self._port.ledger
        report = Report(
            replicas_heard=self._replicas.number,
            places_heard=self._neighbourhood.last.number,
            in_flight=ledger.in_flight(),
            demands=self._port.admissions.demands(),
            breakers=dict(ledger.breaker_states()),
        )
        if report != self._reported:
            self._reported = report
            self._channel.send(report)

    def _send_counts(self) -> None:
        self._channel.send(Counts(self._metrics.samples()))

    def _tell_hung(self, replica: str) -> None:
        self._channel.send(Hung(replica))
