"""Clients that never read their answers, and clients that never finish their requests."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from chaos.expected_requests import expected_request, send_all
from chaos.fleet import IDLE, MODEL, Fleet, running_fleet, wait_until
from chaos.transcript import Ending

NUM_CLIENTS = 100
MANY_TOKENS = 30_000
"""About 6 MB as a stream: far more than all buffers between replica and client."""
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    """Two fast replicas with a long context."""
    flags = ("--tpot-ms", "1", "--max-model-len", "40000", "--eos-every-tokens", "0")
    with running_fleet(2, *flags, "--tokens-per-chunk", "64") as running:
        yield running


async def test_clients_that_never_read(fleet: Fleet) -> None:
    """The gateway's memory is limited to its buffers, and the replicas cannot send ahead."""
    before_bytes = fleet.gateway.rss_bytes()
    async with connected(fleet, NUM_CLIENTS, receive_buffer_bytes=4096) as sockets:
        body = {"model": MODEL, "prompt": "x", "max_tokens": MANY_TOKENS, "stream": True}
        for client in sockets:
            client.sendall(request_head(body) + json.dumps(body).encode())
        await asyncio.sleep(4)  # time for some 4,000 tokens per stream
        grown_bytes = fleet.gateway.rss_bytes() - before_bytes
        wait_until(lambda: fleet.gateway.num_in_flight == NUM_CLIENTS)
        assert grown_bytes / NUM_CLIENTS < MIB
        # Other clients are served in the meantime.
        requests = [expected_request(number, max_tokens=8) for number in range(8)]
        transcripts = await send_all(fleet, requests, name="other-clients")
        assert {transcript.ending for transcript in transcripts} == {Ending.COMPLETED}
    wait_until(lambda: fleet.gateway.num_in_flight == 0 and fleet.loads() == [IDLE, IDLE])
    sent = [r.num_tokens for r in fleet.ended_records() if r.max_tokens == MANY_TOKENS]
    assert len(sent) == NUM_CLIENTS
    assert max(sent) < MANY_TOKENS, "a replica sent a whole answer that its client did not read"


async def test_bodies_that_never_end(fleet: Fleet) -> None:
    """Each takes a connection and nothing else: no lease, no slot, no time of a replica."""
    start_at_s = time.time()
    async with connected(fleet, 2 * NUM_CLIENTS) as sockets:
        for number, client in enumerate(sockets):
            head = request_head({}, length=1000)
            client.sendall(head[:40] if number % 2 else head + b'{"model":')
        start_s = time.monotonic()
        while time.monotonic() - start_s < 3:
            for client in sockets:
                client.sendall(b"x")
            requests = [expected_request(number, max_tokens=8) for number in range(4)]
            transcripts = await send_all(fleet, requests, name=f"slow-body-{start_s}")
            assert {transcript.ending for transcript in transcripts} == {Ending.COMPLETED}
            await asyncio.sleep(0.2)
        wait_until(lambda: fleet.gateway.num_in_flight == 0)
        records = [r for r in fleet.records() if r.begun_s > start_at_s]
        assert all(record.request_id.startswith("slow-body") for record in records)
    requests = [expected_request(number, max_tokens=8) for number in range(4)]
    transcripts = await send_all(fleet, requests, name="after-slow-body")
    assert {transcript.ending for transcript in transcripts} == {Ending.COMPLETED}


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
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    sockets: list[socket.socket] = []
    try:
        for _ in range(num_sockets):
            client = socket.socket()
            sockets.append(client)
            if receive_buffer_bytes is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            client.connect((host, int(port)))
        yield sockets
    finally:
        for client in sockets:
            client.close()
