"""Live signals reach a worker without the list of replicas and its keys."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.signals import ReplicaSignals
from paceline.runtime.gateway.workers.channel import Channel
from paceline.runtime.gateway.workers.messages import (
    LineDecoder,
    PeerState,
    ReplicaList,
    Setup,
    SignalUpdate,
    ToParent,
    ToWorker,
    encode_line,
)
from paceline.runtime.gateway.workers.worker import _Worker
from paceline.runtime.gateway.workers.worker_process import WorkerProcess
from paceline.runtime.gateway.workers.worker_totals import WorkerTotals
from unit.gateway.conftest import until
from unit.gateway.workers.conftest import WORKERS

R0 = Replica("r0", "http://host:8000", "tiny", "ready", key="s3cret")
SIGNALS = {"r0": ReplicaSignals(3, 1, 0.5, 0.75, 0.02)}


@asynccontextmanager
async def channels() -> AsyncIterator[tuple[Channel[ToParent, ToWorker], Channel[Any, Any]]]:
    parent_end, worker_end = socket.socketpair()
    parent: Channel[ToParent, ToWorker] = await Channel.over(parent_end, ToParent)
    worker: Channel[ToWorker, ToParent] = await Channel.over(worker_end, ToWorker)
    try:
        yield parent, worker
    finally:
        parent.close()
        worker.close()


def test_an_update_survives_encoding_and_holds_no_key() -> None:
    update = SignalUpdate(SIGNALS)
    line = encode_line(update)
    assert LineDecoder(ToWorker).decode(line) == update
    assert msgspec.json.decode(line)["signals"].keys() == {"r0"}
    assert b"key" not in line


async def test_a_worker_uses_the_last_update_and_keeps_its_list_of_replicas() -> None:
    async with channels() as (parent, end):
        worker = _Worker(end, Setup(WORKERS))
        listening = asyncio.create_task(worker._listen())
        assert worker.signals() == {}
        parent.send(ReplicaList(1, (R0,)))
        parent.send(SignalUpdate({"r0": ReplicaSignals(1)}))
        parent.send(SignalUpdate(SIGNALS))
        parent.send(PeerState(1))
        await until(lambda: worker.signals() == SIGNALS)
        assert worker.replicas() == (R0,)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_new_signals_are_sent_once_and_without_the_list() -> None:
    async with channels() as (parent, end):
        process = WorkerProcess(0, _NoProcess(), parent, WorkerTotals(1))  # type: ignore[arg-type]
        for replicas, signals in (
            (ReplicaList(1, (R0,)), {}),
            (ReplicaList(1, (R0,)), SIGNALS),
            (ReplicaList(1, (R0,)), dict(SIGNALS)),
            (ReplicaList(1, (R0,)), {}),
        ):
            process.send_replicas(replicas)
            process.send_signals(signals)
        received = [await end.receive() for _ in range(3)]
        assert received == [ReplicaList(1, (R0,)), SignalUpdate(SIGNALS), SignalUpdate({})]


class _NoProcess:
    pid = 0
