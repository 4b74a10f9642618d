"""What an old server does at each point at which the new process may end or hang."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from paceline.runtime.serve import run
from paceline.runtime.serve.handover import handing_over, outgoing
from paceline.runtime.serve.handover.connection import Connection
from paceline.runtime.serve.handover.messages import (
    HandOverBroken,
    Message,
    Offer,
    Owned,
    Released,
    Take,
)
from paceline.runtime.serve.handover.owner_address import OwnerAddress, path_of
from paceline.runtime.serve.handover.packets import MAX_DESCRIPTORS, MAX_PACKET_BYTES, unpack
from paceline.runtime.serve.handover.taking_over import TakeOverFailed
from unit.engine.process.test_supervisor import is_alive, pids
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.serve.handover.servers import Server, begin, plan_for, serving


class NewProcess:
    """The other side, step by step."""

    def __init__(self, server: Server) -> None:
        self._place = (server.gateway.host, server.gateway.port)
        self._connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connected.connect(path_of(*self._place))
        self.connection = Connection(self._connected)
        self.address = OwnerAddress()
        self._descriptors: list[int] = []
        self._engines: dict[str, int] = {}

    async def prepare(self) -> None:
        """Up to the moment at which the old process has sent `Offer`."""
        self._connected.setblocking(True)
        packet, self._descriptors, _, _ = await asyncio.to_thread(
            socket.recv_fds, self._connected, MAX_PACKET_BYTES, MAX_DESCRIPTORS
        )
        self._connected.setblocking(False)
        offer = unpack(packet, self._descriptors)
        assert isinstance(offer, Offer)
        self._engines = {engine.name: engine.pid for engine in offer.engines}

    async def take(self, *, is_prepared: bool = False) -> None:
        """Up to the moment at which the old process has sent `Released`."""
        if not is_prepared:
            await self.prepare()
        self.connection.send(Take(self._engines))
        assert isinstance(await self.connection.receive(60), Released)

    def bind(self) -> bool:
        return self.address.acquire(*self._place)

    def end(self) -> None:
        """As the kernel does it."""
        self.connection.close()
        self.address.give_up()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


async def drain_status(server: Server) -> int:
    async with httpx.AsyncClient(base_url=server.gateway.admin_url, timeout=60) as admin:
        change = {"name": "far", "draining": True}
        return (await admin.patch("/admin/replicas", json=change)).status_code


async def assert_continues(server: Server) -> None:
    """It accepts changes, and can still be taken over from."""
    async with httpx.AsyncClient(base_url=server.gateway.url, timeout=60) as http:
        ready = await http.get("/ready")
    assert (ready.status_code, "connection" in ready.headers) == (200, False)
    assert await drain_status(server) == 200
    (await begin(server)).close()


async def test_the_old_server_continues_when_the_new_process_ends(
    folder: Path, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At three points, one after the other, and after an exception of its own.

    It still restarts the engine in the end.
    """
    async with serving(plan_for(folder / "a", remote.url)) as old:
        for moment in ("before Take", "after Released", "address bound"):
            new = NewProcess(old)
            if moment != "before Take":
                await new.take()
                assert await drain_status(old) == 503  # the new process would not get the change
            if moment == "address bound":
                assert new.bind()
            new.end()
            await until(lambda: not is_free(old))
            await assert_continues(old)
        new = NewProcess(old)
        with monkeypatch.context() as patch:
            patch.setattr(outgoing, "find_obstacle", fail_for_take)
            with pytest.raises(HandOverBroken, match="it ended"):
                await new.take()
        new.end()
        await assert_continues(old)
        os.kill(pids(folder)[0][0], signal.SIGKILL)
        await until(lambda: len(pids(folder)) == 2)
        await until(lambda: old.states()["engine-0"] == "ready")


def fail_for_take(taken: dict[str, int], *_: object, **__: object) -> None:
    if taken:
        raise RuntimeError("a bug")


def is_free(server: Server) -> bool:
    """Whether no process is bound to the owner's address."""
    with OwnerAddress() as address:
        return address.acquire(server.gateway.host, server.gateway.port)


class TestedLimit:
    """The time limit on `Owned` passes when the test says so."""

    __test__ = False

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def begins(self) -> asyncio.Event:
        """Returns when the old process waits for `Owned`."""
        return await asyncio.wait_for(self._waiting.get(), 60)

    async def passes(self) -> None:
        (await self.begins()).set()

    def connection(self, connected: socket.socket) -> Connection:
        waiting = self._waiting

        class Limited(Connection):
            async def receive(self, timeout_s: float | None = None) -> Message:
                if timeout_s != handing_over.TIMEOUT_S:
                    return await super().receive(timeout_s)
                passed = asyncio.Event()
                waiting.put_nowait(passed)
                while True:
                    try:
                        return await super().receive(0.01)
                    except TimeoutError:
                        if passed.is_set():
                            raise

        return Limited(connected)


async def test_a_process_that_hangs_before_it_owns_loses_the_engines(
    folder: Path, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it continues, it cannot bind the address. One that hangs after that is the owner."""
    limit = TestedLimit()
    monkeypatch.setattr(handing_over, "Connection", limit.connection)
    async with serving(plan_for(folder / "a", remote.url)) as old:
        new = NewProcess(old)
        await new.take()
        await limit.passes()
        with pytest.raises(HandOverBroken, match="it ended"):
            await new.connection.receive(60)
        assert not new.bind()
        new.end()
        await assert_continues(old)

        new = NewProcess(old)
        await new.take()
        assert new.bind()
        await limit.passes()
        await limit.begins()  # it waits once more
        assert not old.task.done()
        new.connection.send(Owned())
        await asyncio.wait_for(old.task, 60)
        ((engine, _),) = pids(folder)
        assert is_alive(engine)
        new.end()
        await until(lambda: not is_alive(engine))


@pytest.mark.parametrize("is_bound", [True, False])
async def test_a_server_that_stops_after_released_ends_only_its_own_engines(
    is_bound: bool, folder: Path, remote: FakeRemote
) -> None:
    async with serving(plan_for(folder / "a", remote.url)) as old:
        new = NewProcess(old)
        await new.take()
        if is_bound:
            assert new.bind()
        ((engine, _),) = pids(folder)
    assert is_alive(engine) is is_bound
    new.end()
    await until(lambda: not is_alive(engine))


@pytest.mark.parametrize("moment", ["lame duck", "drain", "ended"])
async def test_a_server_that_gets_sigterm_after_the_offer_hands_over(
    moment: str, folder: Path, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it serves on, while it completes its requests, and by its end."""
    is_lame_duck_over = asyncio.Event()
    if moment == "lame duck":
        ended_by_test = {"sleep": lambda _: is_lame_duck_over.wait()}
        monkeypatch.setattr(run, "asyncio", SimpleNamespace(**vars(asyncio) | ended_by_test))
    async with (
        serving(plan_for(folder / "a", remote.url)) as old,
        httpx.AsyncClient(base_url=old.gateway.url, timeout=60) as http,
    ):
        await until(lambda: old.states()["far"] == "ready")
        new = NewProcess(old)
        await new.prepare()
        sending: asyncio.Task[httpx.Response] | None = None
        if moment == "drain":
            remote.mode = "hang"
            body = {"model": "tiny", "prompt": "x"}
            sending = asyncio.create_task(http.post("/v1/completions", json=body, timeout=60))
            await until(lambda: old.gateway.traffic.num_in_flight("far") == 1)
        os.kill(os.getpid(), signal.SIGTERM)
        if moment == "ended":
            await asyncio.wait_for(old.task, 60)
            with pytest.raises(HandOverBroken):
                await new.take(is_prepared=True)
            assert new.bind()
        else:
            if moment == "drain":
                await until(lambda: old.gateway.sockets[0].fileno() == -1)
            await new.take(is_prepared=True)
            assert new.bind()
            new.connection.send(Owned())
            is_lame_duck_over.set()
            if sending is not None:
                sending.cancel()
            await asyncio.wait_for(old.task, 60)
        ((engine, _),) = pids(folder)
        assert is_alive(engine)
        new.end()
        await until(lambda: not is_alive(engine))


async def test_a_process_that_hangs_before_take_is_named_and_given_up(
    folder: Path, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are refused at once as long as the old process waits for it."""
    async with serving(plan_for(folder / "a", remote.url)) as old:
        new = NewProcess(old)
        await new.prepare()
        with pytest.raises(TakeOverFailed, match=f"process {os.getpid()} is about to take over"):
            await begin(old)
        new.end()
        (await begin(old)).close()
        monkeypatch.setattr(handing_over, "take_timeout_s", lambda _: 0.1)
        new = NewProcess(old)
        await new.prepare()
        with pytest.raises(HandOverBroken, match="it ended"):
            await new.connection.receive(60)
        await assert_continues(old)
        new.end()
