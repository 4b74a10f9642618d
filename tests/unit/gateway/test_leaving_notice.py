"""Notices of processes that end: which ports conflict, who reads them, and when they are gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from paceline.gateway import GatewaySettings
from paceline.gateway.leaving_notice import (
    LeavingNotice,
    Notice,
    PortAddress,
    abstract_names,
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
    assert ports_of(GatewaySettings(host="unknown.invalid", port=7, admin_port=0)) == ()


def test_a_notice_is_up_from_the_announcement_to_the_end_of_the_block(port: int) -> None:
    address = PortAddress("127.0.0.1", port)
    name = Notice(os.getpid(), address).path[1:]
    with LeavingNotice([address]) as leaving:
        assert name not in abstract_names()
        for _ in range(2):
            leaving.announce()
            assert name in abstract_names()
        assert notices_about([address]) == []  # its own
    assert name not in abstract_names()


_ANNOUNCE = """
import sys
from paceline.gateway.leaving_notice import LeavingNotice, PortAddress
leaving = LeavingNotice([PortAddress("0.0.0.0", int(sys.argv[1]))])
leaving.announce()
print("announced", flush=True)
sys.stdin.read()
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


@pytest.mark.parametrize("text", ["", "x-8-127.0.0.1", "1-x-127.0.0.1", "1-8-", "1-8-host", "1"])
def test_names_that_are_no_notices_are_not_read(port: int, text: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"\0paceline-leaving-{os.getuid()}-{text}")
        listener.listen()
        assert notices_about([PortAddress("0.0.0.0", 8), PortAddress("0.0.0.0", port)]) == []
