"""Clients that never read what they asked for, and clients that never finish asking."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from chaos.expected_requests import ask_all, known
from chaos.fleet import IDLE, MODEL, Fleet, running_fleet, until

NUM_CLIENTS = 100
MANY_TOKENS = 30_000
"""Some 6 MB as a stream: far more than all buffers on its way."""
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    """Two fast replicas with a long context."""
    flags = ("--tpot-ms", "1", "--max-model-len", "40000", "--eos-every-tokens", "0")
    with running_fleet(2, *flags, "--tokens-per-chunk", "64") as running:
        yield running


async def test_clients_that_never_read(fleet: Fleet) -> None:
    """The gateway holds no more than its buffers, and the replicas are not let run ahead."""
    before_bytes = fleet.served.rss_bytes()
    async with connected(fleet, NUM_CLIENTS, receive_buffer_bytes=4096) as sockets:
        body = {"model": MODEL, "prompt": "x", "max_tokens": MANY_TOKENS, "stream": True}
        for one in sockets:
            one.sendall(request_head(body) + json.dumps(body).encode())
        await asyncio.sleep(4)
        grown_bytes = fleet.served.rss_bytes() - before_bytes
        until(lambda: fleet.served.num_in_flight == NUM_CLIENTS)
        assert grown_bytes / NUM_CLIENTS < MIB
        # Others are served meanwhile.
        asked = [known(number, max_tokens=8) for number in range(8)]
        told = await ask_all(fleet, asked, name="beside-those-that-never-read")
        assert [answer.ending for answer in told] == ["completed"] * len(told)
    until(lambda: fleet.served.num_in_flight == 0 and fleet.loads() == [IDLE, IDLE])
    sent = [r.num_tokens for r in fleet.records() if r.max_tokens == MANY_TOKENS]
    assert len(sent) == NUM_CLIENTS
    assert max(sent) < MANY_TOKENS, "a replica sent all of an answer that nobody read"


async def test_bodies_that_never_end(fleet: Fleet) -> None:
    """They hold a connection each and nothing else: no lease, no place, and no replica's time."""
    began_at_s = time.time()
    async with connected(fleet, 2 * NUM_CLIENTS) as sockets:
        for number, one in enumerate(sockets):
            head = request_head({}, length=1000)
            one.sendall(head[:40] if number % 2 else head + b'{"model":')
        began_s = time.monotonic()
        while time.monotonic() - began_s < 3:
            for one in sockets:
                one.sendall(b"x")
            asked = [known(number, max_tokens=8) for number in range(4)]
            told = await ask_all(fleet, asked, name=f"loris-{began_s}")
            assert [answer.ending for answer in told] == ["completed"] * len(told)
            await asyncio.sleep(0.2)
        assert fleet.served.num_in_flight == 0
        asked_of_replicas = [r for r in fleet.records() if r.begun_s > began_at_s]
        assert all(record.request_id.startswith("loris") for record in asked_of_replicas)
    asked = [known(number, max_tokens=8) for number in range(4)]
    told = await ask_all(fleet, asked, name="after-loris")
    assert [answer.ending for answer in told] == ["completed"] * len(told)


def request_head(body: dict[str, object], length: int | None = None) -> bytes:
    num_bytes = len(json.dumps(body)) if length is None else length
    return (
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {num_bytes}\r\n\r\n"
    ).encode()


@asynccontextmanager
async def connected(
    fleet: Fleet, num_sockets: int, receive_buffer_bytes: int | None = None
) -> AsyncIterator[list[socket.socket]]:
    host, _, port = fleet.served.url.removeprefix("http://").partition(":")
    sockets: list[socket.socket] = []
    try:
        for _ in range(num_sockets):
            one = socket.socket()
            sockets.append(one)
            if receive_buffer_bytes is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            one.connect((host, int(port)))
        yield sockets
    finally:
        for one in sockets:
            one.close()
