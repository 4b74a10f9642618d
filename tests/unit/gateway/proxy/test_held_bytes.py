"""What a request holds while its body waits to be decoded, and while its error is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from paceline.runtime.gateway.api.data_app import DataApp
from paceline.runtime.gateway.data_port import DataPort
from paceline.runtime.gateway.http.byte_budget import REQUEST_BYTES
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.services import GatewayServices
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import Replica
from unit.gateway.conftest import SETTINGS, FixedReplicas, chat, until
from unit.gateway.fake_engine import MODEL

PATH = "/v1/chat/completions"
READY = Replica("r0", "/run/no/such.sock", MODEL, "ready", max_model_len=100_000)
LARGE = chat(messages=[{"role": "user", "content": "x" * 90_000}])


class Exchange:
    """One request to the application, without a server in between."""

    def __init__(self, body: dict[str, object], **headers: str) -> None:
        self.metrics = GatewayMetrics()
        port = DataPort(SETTINGS, self.metrics)
        source = FixedReplicas([READY])
        self.services: GatewayServices = port._services(source, Upstreams(SETTINGS))
        self.app = DataApp(self.services)
        self._body = json.dumps(body).encode()
        self._is_read = False
        self.has_left = asyncio.Event()
        self.num_dropped = 0
        self.sent: list[dict[str, Any]] = []
        self.on_start: Callable[[], None] = lambda: None
        self.on_receive: Callable[[], None] = lambda: None
        """Called before the body is received."""
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "raw_path": PATH.encode(),
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(self._body)),
                *((name.encode(), value.encode()) for name, value in headers.items()),
            ],
        }

    async def run(self) -> None:
        await self.app(self._scope, self._receive, self._send)

    def count(self, outcome: Outcome) -> float | None:
        return self.metrics.registry.get_sample_value(
            "paceline_requests_total", {"outcome": outcome.value}
        )

    async def _receive(self) -> dict[str, Any]:
        if self._is_read:
            await self.has_left.wait()
            return {"type": "http.disconnect"}
        self.on_receive()
        self._is_read = True
        exchange = self

        class Body(bytes):
            def __del__(self) -> None:
                exchange.num_dropped += 1

        return {"type": "http.request", "body": Body(self._body), "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.on_start()
        self.sent.append(message)


@pytest.mark.parametrize(
    ("body", "status"),
    [({**LARGE, "model": "unknown"}, 404), ({**LARGE, "temperature": "x"}, 400)],
)
async def test_a_refused_body_is_dropped_before_its_client_reads_why(
    body: dict[str, object], status: int
) -> None:
    """The client may take minutes to read it, with an earlier answer unread."""
    exchange = Exchange(body)
    seen: list[tuple[int, int]] = []
    exchange.on_start = lambda: seen.append(
        (exchange.num_dropped, exchange.services.bytes_held.num_bytes)
    )
    await exchange.run()
    assert exchange.sent[0]["status"] == status
    assert seen == [(1, REQUEST_BYTES)]
    assert exchange.services.bytes_held.num_bytes == 0


async def test_memory_for_a_body_is_reserved_before_it_is_read() -> None:
    """For the body, the replica's copy and the decoded form."""
    exchange = Exchange(LARGE)
    reserved: list[int] = []
    exchange.on_receive = lambda: reserved.append(exchange.services.bytes_held.num_bytes)
    await exchange.run()
    assert reserved == [REQUEST_BYTES + 3 * len(json.dumps(LARGE))]


async def test_a_client_that_leaves_before_its_body_is_decoded_is_noticed() -> None:
    exchange = Exchange(LARGE)
    async with asyncio.timeout(60), exchange.services.decoding_turns.turn(len(str(LARGE))):
        running = asyncio.create_task(exchange.run())
        await until(lambda: exchange.services.bytes_held.num_bytes > REQUEST_BYTES + 90_000)
        exchange.has_left.set()
        await running
    assert exchange.count(Outcome.CLIENT_GONE) == 1
    assert exchange.services.bytes_held.num_bytes == 0


async def test_the_deadline_holds_while_a_body_waits_to_be_decoded() -> None:
    exchange = Exchange(LARGE, **{"x-request-timeout-ms": "50"})
    async with asyncio.timeout(60), exchange.services.decoding_turns.turn(len(str(LARGE))):
        await exchange.run()
    assert exchange.sent[0]["status"] == 504
    assert exchange.count(Outcome.EXPIRED) == 1
    assert exchange.services.bytes_held.num_bytes == 0


async def test_short_text_with_many_values_waits_for_its_turn_to_be_decoded() -> None:
    """Decoding ten such bodies in a row would pause every stream for over 100 ms."""
    body = chat(x=[[]] * 10_000)
    assert len(json.dumps(body)) < 64 * 1024
    exchange = Exchange(body)
    async with exchange.services.decoding_turns.turn(2**20):
        request = asyncio.create_task(exchange.run())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not exchange.sent
    await request
    assert exchange.sent
