"""A start waits for a process that stops on its ports, and for nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from paceline.foundation.machine import abstract_sockets
from paceline.runtime.gateway import GatewaySettings
from paceline.runtime.gateway.leaving_notice import Notice, PortAddress
from paceline.runtime.serve.handover.owner_address import path_of
from paceline.runtime.serve.predecessor import (
    PredecessorStays,
    explain_taken_port,
    wait_for_predecessors,
)

WITHIN_S = 60.0
"""Ends a test that hangs; decides nothing."""
PIDS = (10_000_001, 10_000_002)
"""Above the largest process id of Linux."""


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Two port numbers that no other test uses meanwhile."""
    with socket.socket() as one, socket.socket() as two:
        for reserved in (one, two):
            reserved.bind(("127.0.0.1", 0))
        yield one.getsockname()[1], two.getsockname()[1]


@contextlib.contextmanager
def stopping(pid: int, *addresses: tuple[str, int]) -> Iterator[None]:
    """Another process that has these ports and stops during the block."""
    with contextlib.ExitStack() as stack:
        for address in addresses:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            stack.enter_context(listener)
            listener.bind(Notice(pid, PortAddress(*address)).path)
            listener.listen()
        yield


class Start:
    """A start that may have to wait."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.messages: list[str] = []
        self.is_waiting = asyncio.Event()
        self.task = asyncio.create_task(wait_for_predecessors(settings, self._on_wait, WITHIN_S))

    def _on_wait(self, message: str) -> None:
        self.messages.append(message)
        self.is_waiting.set()


@contextlib.asynccontextmanager
async def starting(settings: GatewaySettings) -> AsyncIterator[Start]:
    start = Start(settings)
    try:
        async with asyncio.timeout(WITHIN_S):
            yield start
    finally:
        start.task.cancel()
        await asyncio.gather(start.task, return_exceptions=True)


@pytest.mark.parametrize(
    ("host", "theirs"),
    [
        ("127.0.0.1", [("127.0.0.1", 0), ("127.0.0.1", 1)]),  # the same settings
        ("127.0.0.1", [("0.0.0.0", 0)]),
        ("0.0.0.0", [("127.0.0.1", 0)]),
        ("127.0.0.1", [("::", 0)]),
        ("::", [("127.0.0.1", 0)]),
        ("127.0.0.1", [("127.0.0.1", 0)]),  # another admin port
        ("127.0.0.1", [("127.0.0.1", 1)]),  # another data port
        ("127.0.0.2", [("0.0.0.0", 1)]),
    ],
)
async def test_a_start_waits_for_a_process_that_stops_on_a_port_of_its_own(
    ports: tuple[int, int], host: str, theirs: list[tuple[str, int]]
) -> None:
    addresses = [(ip, ports[index]) for ip, index in theirs]
    settings = GatewaySettings(host=host, port=ports[0], admin_port=ports[1])
    with stopping(PIDS[0], *addresses):
        async with starting(settings) as start:
            await start.is_waiting.wait()
            assert not start.task.done()
            (message,) = start.messages
            assert f"process {PIDS[0]} is stopping" in message
            assert "Ctrl-C ends the wait" in message


async def test_it_starts_when_that_process_has_ended_and_has_said_so_once(
    ports: tuple[int, int],
) -> None:
    settings = GatewaySettings(port=ports[0], admin_port=ports[1])
    with contextlib.ExitStack() as both_ports:
        both_ports.enter_context(stopping(PIDS[0], *(("127.0.0.1", port) for port in ports)))
        async with starting(settings) as start:
            await start.is_waiting.wait()
            both_ports.close()
            await start.task
    assert len(start.messages) == 1


async def test_it_waits_for_each_of_several_processes(ports: tuple[int, int]) -> None:
    """One may have had the data port, the other one the admin port."""
    settings = GatewaySettings(port=ports[0], admin_port=ports[1])
    with contextlib.ExitStack() as one, contextlib.ExitStack() as two:
        one.enter_context(stopping(PIDS[0], ("127.0.0.1", ports[0])))
        two.enter_context(stopping(PIDS[1], ("127.0.0.1", ports[1])))
        async with starting(settings) as start:
            await start.is_waiting.wait()
            start.is_waiting.clear()
            (first := one if str(PIDS[0]) in start.messages[0] else two).close()
            await start.is_waiting.wait()
            (two if first is one else one).close()
            await start.task
    assert len(start.messages) == 2


async def test_two_starts_that_wait_for_the_same_process_both_continue(
    ports: tuple[int, int],
) -> None:
    """The ports decide between them."""
    settings = GatewaySettings(port=ports[0], admin_port=ports[1])
    with contextlib.ExitStack() as predecessor_runs:
        predecessor_runs.enter_context(stopping(PIDS[0], ("127.0.0.1", ports[0])))
        async with starting(settings) as one, starting(settings) as two:
            await one.is_waiting.wait()
            await two.is_waiting.wait()
            predecessor_runs.close()
            await asyncio.gather(one.task, two.task)


async def test_nothing_is_waited_for_where_no_process_stops_on_these_ports(
    ports: tuple[int, int],
) -> None:
    """Neither another address, nor another port, nor a port that is taken by another program."""
    settings = GatewaySettings(port=ports[0], admin_port=0)
    with stopping(PIDS[0], ("127.0.0.2", ports[0]), ("127.0.0.1", ports[1]), ("::1", ports[0])):
        async with starting(settings) as start:
            await start.task
    assert start.messages == []


async def test_ports_that_are_chosen_at_the_start_are_waited_for_by_nobody() -> None:
    async with starting(GatewaySettings(port=0, admin_port=0)) as start:
        await start.task
    assert start.messages == []


async def test_the_notice_of_another_user_is_not_waited_for(
    ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Abstract addresses have no permissions: any user could keep this one's server down."""
    monkeypatch.setattr(abstract_sockets, "is_own_user", lambda connected: False)
    with stopping(PIDS[0], ("127.0.0.1", ports[0])):
        async with starting(GatewaySettings(port=ports[0], admin_port=0)) as start:
            await start.task
    assert start.messages == []


def fill(path: str, stack: contextlib.ExitStack) -> None:
    """Connect until the queue of this address is full."""
    for _ in range(1000):
        client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        client.setblocking(False)
        try:
            client.connect(path)
        except BlockingIOError:
            return
    raise AssertionError("the queue is never full")


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_notice_with_a_full_queue_counts_while_its_port_is_taken(is_taken: bool) -> None:
    """Others may fill the queue of a notice, and may put one up for a port that is free."""
    with contextlib.ExitStack() as stack, socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", 0))
        if is_taken:
            port.listen()
        address = PortAddress("127.0.0.1", port.getsockname()[1])
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(Notice(PIDS[0], address).path)
        listener.listen()
        fill(listener.getsockname().decode(), stack)
        async with starting(GatewaySettings(port=address.port, admin_port=0)) as start:
            if is_taken:
                await start.is_waiting.wait()
                assert f"process {PIDS[0]} is stopping" in start.messages[0]
                port.close()
            await start.task
        assert bool(start.messages) is is_taken


async def test_a_process_of_another_container_with_the_same_pid_is_waited_for(
    ports: tuple[int, int],
) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping(os.getpid(), ("127.0.0.1", ports[0])))
        async with starting(GatewaySettings(port=ports[0], admin_port=0)) as start:
            await start.is_waiting.wait()
            stack.close()
            await start.task


@pytest.mark.parametrize("is_own", [True, False])
def test_only_an_own_process_that_has_the_address_explains_a_taken_port(
    ports: tuple[int, int], is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abstract_sockets, "is_own_user", lambda connected: is_own)
    settings = GatewaySettings(port=ports[0], admin_port=0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder:
        holder.bind(path_of("127.0.0.1", ports[0]))
        holder.listen()
        assert bool(explain_taken_port(settings)) is is_own


async def test_a_process_that_does_not_end_in_time_is_named(ports: tuple[int, int]) -> None:
    settings = GatewaySettings(port=ports[0], admin_port=0)
    with (
        stopping(PIDS[0], ("127.0.0.1", ports[0])),
        pytest.raises(PredecessorStays, match=rf"process {PIDS[0]} .*server\.drain_timeout_s"),
    ):
        await wait_for_predecessors(settings, lambda message: None, within_s=0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("systemd-{port}", ""),
        ("paceline-{uid}-127.0.0.1-9", ""),
        ("paceline-{uid}-127.0.0.2-{port}", ""),
        ("paceline-{uid}-127.0.0.1-{port}", "yours has 127.0.0.1:{port}; --take-over replaces"),
        ("paceline-{uid}-0.0.0.0-{port}", "--host 0.0.0.0 --take-over replaces it"),
        ("paceline-{uid}-::-{port}", "--host :: --take-over replaces it"),
        ("paceline-{uid}-unknown.invalid-{port}", ""),
        ("paceline-leaving-{uid}-7-{port}-127.0.0.1", ""),
        ("paceline-9{uid}-127.0.0.1-{port}", ""),
    ],
)
def test_a_taken_port_of_a_running_paceline_can_be_taken_over(
    ports: tuple[int, int], name: str, expected: str
) -> None:
    port = ports[0]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder:
        holder.bind("\0" + name.format(uid=os.getuid(), port=port))
        holder.listen()
        text = explain_taken_port(GatewaySettings(port=port))
    assert expected.format(port=port) in text
    assert bool(text) == bool(expected)
