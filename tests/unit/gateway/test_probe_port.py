"""Probes answer on a port of their own, whatever clients do to the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from paceline.runtime.gateway import own_limits, server
from paceline.runtime.gateway.http.listening import PortTaken, bind
from paceline.runtime.gateway.probe_port import MAX_PROBE_CONNECTIONS
from unit.gateway.conftest import SETTINGS, FixedReplicas, Serve, Served, chat, until

PROBE = {"probe_port": 0}


@contextlib.asynccontextmanager
async def probing(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    url = f"http://127.0.0.1:{served.gateway.probe_port}"
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield client


async def test_it_has_health_and_ready_only_and_ends_every_connection(serve: Serve) -> None:
    async with serve(**PROBE) as served, probing(served) as probe:
        assert (await probe.get("/health")).json() == {"status": "alive"}
        assert (await probe.get("/ready")).json()["ready"] == 1
        assert (await probe.head("/ready")).content == b""
        for path in ("/", "/v1/models", "/metrics", "/health/", "/dashboard", "/admin/replicas"):
            assert (await probe.get(path)).status_code == 404
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            answer = await probe.request(method, "/health", content=b"{}")
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
            assert answer.headers["connection"] == "close"
        served.source.current = []
        answer = await probe.get("/ready")
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")
        assert (await probe.get("/health")).headers["connection"] == "close"


async def test_without_its_setting_there_is_none(serve: Serve) -> None:
    async with serve() as served:
        assert served.gateway.probe_port is None
        assert len(served.gateway.sockets) == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nx:",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: 9\r\n\r\n{",
    ],
)
@pytest.mark.parametrize("flooded", ["port", "admin_port", "probe_port"])
async def test_probes_answer_under_a_flood_of_connections(
    serve: Serve, flooded: str, sent: bytes
) -> None:
    async with serve(**PROBE, max_connections=40) as served, probing(served) as probe:
        opened = []
        for number in range(MAX_PROBE_CONNECTIONS + 40):
            _, writer = await asyncio.open_connection("127.0.0.1", getattr(served.gateway, flooded))
            writer.write(sent)
            opened.append(writer)
            if number % 20 == 19:
                assert (await probe.get("/health")).status_code == 200
                assert (await probe.get("/ready")).status_code == 200
        for writer in opened:
            writer.close()


async def test_clients_do_not_use_up_the_descriptors_of_the_process(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process might open 300: beyond 256, three eighths are for the data port."""
    for module in (own_limits, server, "paceline.runtime.gateway.data_port"):
        name = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{name}.descriptor_limit", lambda: 300)
    async with serve(**PROBE) as served, probing(served) as probe:
        opened = [
            await asyncio.open_connection("127.0.0.1", served.gateway.port) for _ in range(60)
        ]
        for reader, _ in opened[: 60 - 16]:
            async with asyncio.timeout(60):
                await reader.read()
        assert not any(reader.at_eof() for reader, _ in opened[60 - 16 :])
        assert (await probe.get("/health")).status_code == 200
        for _, writer in opened:
            writer.close()


async def test_readiness_fails_when_the_gateway_is_to_end_and_health_does_not(
    serve: Serve,
) -> None:
    async with serve(**PROBE) as served, probing(served) as probe:
        served.gateway.discourage()
        assert (await probe.get("/ready")).status_code == 503
        assert (await probe.get("/health")).status_code == 200


async def test_probes_answer_while_requests_drain(serve: Serve) -> None:
    """The data port accepts no connection then."""
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(**PROBE, drain_timeout_s=60))
        served.engine.mode = "hang"
        _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        body = json.dumps(chat(stream=True)).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await until(lambda: served.engine.num_begun == 1)
        async with probing(served) as probe:
            closing = asyncio.create_task(stack.aclose())
            await until(lambda: _refuses(served.gateway.port))
            assert (await probe.get("/ready")).status_code == 503
            assert (await probe.get("/health")).status_code == 200
        writer.close()
        await closing


async def _refuses(port: int) -> bool:
    with socket.socket() as client:
        client.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        except ConnectionError:  # refused, or reset since the port was just closed
            return True
    return False


async def test_a_taken_port_is_named_with_its_setting() -> None:
    with bind("127.0.0.1", 0, "port") as taken:
        settings = replace(SETTINGS, probe_port=taken.getsockname()[1])
        with pytest.raises(PortTaken, match=r"set server\.probe_port to a free one"):
            async with server.serve_gateway(settings, FixedReplicas([])):
                pass


@pytest.mark.parametrize("is_offered", [True, False])
@pytest.mark.parametrize("is_set", [True, False])
async def test_an_offered_socket_is_served_or_closed(*, is_offered: bool, is_set: bool) -> None:
    offered = [bind("127.0.0.1", 0, "port") for _ in range(2 + is_offered)]
    ports = [one.getsockname()[1] for one in offered]
    settings = replace(SETTINGS, port=ports[0], admin_port=ports[1])
    if is_set:
        settings = replace(settings, probe_port=ports[2] if is_offered else 0)
    async with server.serve_gateway(settings, FixedReplicas([]), sockets=tuple(offered)) as gateway:
        assert (gateway.port, gateway.admin_port) == (ports[0], ports[1])
        if not is_set:
            assert gateway.probe_port is None
        elif is_offered:
            assert gateway.probe_port == ports[2]
        else:
            assert gateway.probe_port not in (None, *ports)
        if is_offered and not is_set:
            assert offered[2].fileno() == -1
    assert all(one.fileno() == -1 for one in offered)
