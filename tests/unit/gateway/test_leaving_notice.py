"""Notices of processes that end: which ports conflict, who reads them, and when they are gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from paceline.foundation.machine.abstract_sockets import list_paths
from paceline.runtime.gateway import GatewaySettings, leaving_notice
from paceline.runtime.gateway.leaving_notice import (
    LeavingNotice,
    Notice,
    PortAddress,
    notices_about,
    ports_of,
)


@pytest.fixture
def port() -> Iterator[int]:
    """A port number that no other test uses meanwhile."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.mark.parametrize(
    ("ip", "other", "conflicts"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "::1", False),
        ("::", "::1", True),
        ("::", "127.0.0.1", True),
        ("::", "0.0.0.0", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_addresses_conflict_where_the_kernel_refuses_the_second(
    port: int, ip: str, other: str, conflicts: bool
) -> None:
    one, two = PortAddress(ip, port), PortAddress(other, port)
    assert one.conflicts_with(two) == two.conflicts_with(one) == conflicts
    assert not one.conflicts_with(PortAddress(other, port + 1))


def test_the_ports_of_the_settings_are_numeric_and_without_those_chosen_at_the_start() -> None:
    settings = GatewaySettings(host="localhost", port=7, admin_port=0)
    (address,) = ports_of(settings)
    assert address.port == 7
    assert address.ip in ("127.0.0.1", "::1")
    assert ports_of(GatewaySettings(host="unknown.invalid", port=7, admin_port=0)) == []


def paths(port: int) -> list[str]:
    """The notices about this port."""
    return [path for path in list_paths() if path.endswith(f"-{port}-127.0.0.1")]


@contextlib.asynccontextmanager
async def announced(port: int) -> AsyncIterator[tuple[LeavingNotice, str]]:
    """The notices of this process, and the path of the one about this port."""
    leaving = LeavingNotice([PortAddress("127.0.0.1", port)])
    leaving.announce()
    (path,) = paths(port)
    yield leaving, path
    leaving.withdraw()


async def test_a_notice_is_up_from_the_announcement_to_the_withdrawal(port: int) -> None:
    address = PortAddress("127.0.0.1", port)
    leaving = LeavingNotice([address])
    assert paths(port) == []
    for _ in range(2):
        leaving.announce()
        (path,) = paths(port)
        assert f"-{os.getpid()}." in path
    assert notices_about([address]) == []  # its own
    for _ in range(2):
        leaving.withdraw()
        assert paths(port) == []


async def connected(path: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, path)
    return client


async def ended(client: socket.socket) -> None:
    """Return when the other end is closed."""
    with client, contextlib.suppress(ConnectionResetError):  # it was still in the queue
        async with asyncio.timeout(60):
            assert await asyncio.get_running_loop().sock_recv(client, 1) == b""


async def test_connections_of_this_user_end_with_the_notice(port: int) -> None:
    async with announced(port) as (leaving, path):
        waiting = [await connected(path) for _ in range(2)]
        for one in waiting:
            with pytest.raises(BlockingIOError):
                one.recv(1)
        leaving.withdraw()
        for one in waiting:
            await ended(one)


async def test_other_users_do_not_fill_the_queue_of_a_notice(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving_notice, "is_own_user", lambda connected: False)
    async with announced(port) as (_, path):
        for _ in range(300):
            await ended(await connected(path))


async def test_processes_that_are_too_many_to_be_held_wait_in_the_queue(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving_notice, "_MAX_WAITING", 2)
    async with announced(port) as (leaving, path):
        waiting = [await connected(path) for _ in range(3)]
        leaving.withdraw()
        for one in waiting:
            await ended(one)


def test_a_notice_of_the_same_pid_in_another_container_is_read(port: int) -> None:
    address = PortAddress("127.0.0.1", port)
    notice = Notice(os.getpid(), address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(notice.path)
        listener.listen()
        assert notices_about([address]) == [notice]


_ANNOUNCE = """
import asyncio, sys
from paceline.runtime.gateway.leaving_notice import LeavingNotice, PortAddress
async def announce():
    LeavingNotice([PortAddress("0.0.0.0", int(sys.argv[1]))]).announce()
    print("announced", flush=True)
    sys.stdin.read()
asyncio.run(announce())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_notice_of_a_process_ends_with_it_however_it_ends(
    port: int, number: signal.Signals
) -> None:
    address = PortAddress("127.0.0.1", port)
    process = subprocess.Popen(
        [sys.executable, "-c", _ANNOUNCE, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"announced\n"
        assert notices_about([address]) == [Notice(process.pid, PortAddress("0.0.0.0", port))]
        process.send_signal(number)
        process.wait(60)
    assert notices_about([address]) == []


@pytest.mark.parametrize(
    "text", ["", "x.a-8-127.0.0.1", "1.a-x-127.0.0.1", "1.a-8-", "1.a-8-host", "1"]
)
def test_names_that_are_no_notices_are_not_read(port: int, text: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"\0paceline-leaving-{os.getuid()}-{text}")
        listener.listen()
        assert notices_about([PortAddress("0.0.0.0", 8), PortAddress("0.0.0.0", port)]) == []
