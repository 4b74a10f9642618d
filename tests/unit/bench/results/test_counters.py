"""The counters come from the measured server and not from an unrelated one."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from paceline.bench.results.counters import find_counters
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
