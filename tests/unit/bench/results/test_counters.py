"""The counters come from the measured server and not from an unrelated one."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from paceline.workbench.bench.results.counters import (
    CounterReading,
    compare_readings,
    find_counters,
    read_again,
)
from paceline.workbench.bench.results.speculation import SpeculationCounters
from unit.bench.simulated import SimulatedServer


def two_ports() -> tuple[socket.socket, socket.socket]:
    """Listeners on two consecutive free ports."""
    for _ in range(50):
        data, admin = socket.socket(), socket.socket()
        data.bind(("127.0.0.1", 0))
        port = data.getsockname()[1] + 1
        try:
            admin.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            data.close()
            admin.close()
        else:
            return data, admin
    raise AssertionError("no two consecutive ports are free")


@asynccontextmanager
async def serving(server: SimulatedServer, listener: socket.socket) -> AsyncIterator[None]:
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    try:
        yield
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("owned_by", "is_read"), [("paceline", True), ("vllm", False)])
async def test_the_port_after_the_data_port_is_read_only_for_a_paceline(
    owned_by: str, is_read: bool
) -> None:
    """That port has counters in both cases; next to a vLLM they belong to another server."""
    measured = SimulatedServer(has_metrics=False, owned_by=owned_by)
    admin_server = SimulatedServer(drafted=8)
    data, admin = two_ports()
    data_port = data.getsockname()[1]
    server = URL.build(scheme="http", host="127.0.0.1", port=data_port)
    async with (
        serving(measured, data),
        serving(admin_server, admin),
        aiohttp.ClientSession() as session,
    ):
        reading = await find_counters(session, server, None)
    assert (reading is not None) is is_read
    if reading is not None:
        assert reading.page.port == data_port + 1
        assert reading.counters.drafted_tokens == 8


def reading(
    drafted: int, accepted: int, drafts: int | None = None, column: tuple[int, ...] | None = None
) -> CounterReading:
    counters = SpeculationCounters(drafted, accepted, drafts, column)
    return CounterReading(URL("http://127.0.0.1:1/metrics"), counters, None)


def test_acceptance_of_several_windows_leaves_out_what_lies_between() -> None:
    """Windows of 8 drafted and 6 accepted, and of 12 and 4; 100 were drafted between them."""
    first = (reading(0, 0, 0, ()), reading(8, 6, 2, (2, 4)))
    second = (reading(108, 6, 27, (2, 4)), reading(120, 10, 30, (4, 5, 1)))
    found = compare_readings([first, second])
    assert (found.drafted_tokens, found.accepted_tokens, found.num_drafts) == (20, 10, 5)
    assert found.acceptance_rate == 0.5
    assert found.acceptance_length == 3.0
    assert found.accepted_per_position_fraction == (4 / 5, 5 / 5, 1 / 5)


def test_one_window_without_counters_leaves_acceptance_unknown() -> None:
    whole = (reading(0, 0), reading(8, 6))
    assert compare_readings([whole, (None, None)]).note == "a reading of the counters failed"
    note = compare_readings([(None, None)]).note
    assert note is not None
    assert "--admin-url" in note


def test_a_restart_in_any_window_leaves_acceptance_unknown() -> None:
    """The sums would be positive: 80 - 5."""
    found = compare_readings([(reading(0, 0), reading(80, 60)), (reading(9, 9), reading(4, 4))])
    assert found.acceptance_rate is None
    assert found.note == "a counter fell: an engine restarted in the window"


async def test_the_same_page_is_read_again(server: SimulatedServer) -> None:
    server.drafted = 8
    async with aiohttp.ClientSession() as session:
        first = await find_counters(session, URL(server.url), None)
        server.drafted = 24
        second = await read_again(session, first)
        assert compare_readings([(first, second)]).drafted_tokens == 16
        server.has_metrics = False
        assert await read_again(session, first) is None
        assert await read_again(session, None) is None
