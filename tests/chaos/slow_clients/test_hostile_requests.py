"""Clients that never finish their requests, or send what no client should."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from chaos.expected_requests import expected_request, send_all
from chaos.fleet import MODEL, Fleet, running_fleet, wait_until
from chaos.slow_clients.raw_requests import address_of, connected, request_head
from chaos.transcript import Ending

NUM_CLIENTS = 100
BODY_BYTES = 7_500_000


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    """Two fast replicas."""
    with running_fleet(2, "--tpot-ms", "1", "--eos-every-tokens", "0") as running:
        yield running


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
            # sleep: clients that are slow by design; slower ones are served no other way
            await asyncio.sleep(0.2)
        wait_until(lambda: fleet.gateway.num_in_flight == 0)
        records = [r for r in fleet.records() if r.begun_s > start_at_s]
        assert all(record.request_id.startswith("slow-body") for record in records)
    requests = [expected_request(number, max_tokens=8) for number in range(4)]
    transcripts = await send_all(fleet, requests, name="after-slow-body")
    assert {transcript.ending for transcript in transcripts} == {Ending.COMPLETED}


@pytest.mark.parametrize(
    "value",
    [b"[]", b"123456", *(pytest.param(one, marks=pytest.mark.slow) for one in (b"{}", b'""'))],
)
async def test_bodies_of_millions_of_values(fleet: Fleet, value: bytes) -> None:
    """They are refused, and the streams of other clients are complete."""
    requests = [expected_request(number, max_tokens=200) for number in range(8)]
    streams = asyncio.create_task(send_all(fleet, requests, name="beside-bodies"))
    values = (value + b",") * (BODY_BYTES // (len(value) + 1))
    body = b'{"model":"%s","prompt":[%s1]}' % (MODEL.encode(), values)
    statuses = await asyncio.gather(*(status_of(fleet, body) for _ in range(10)))
    assert statuses == [400] * 10
    for transcript in await streams:
        assert transcript.ending is Ending.COMPLETED
        assert transcript.format_errors() == []


async def test_what_follows_a_request_is_not_answered_inside_its_answer(fleet: Fleet) -> None:
    """Blank lines, part of a head, garbage, and a second request, during a stream."""
    body = {"model": MODEL, "prompt": "x", "max_tokens": 400, "stream": True}
    request = request_head(body) + json.dumps(body).encode()
    for stray in (b"\r\n", b"\r\n" * 50_000, b"GET /", b"\x00\xff", b"x" * 100_000, request):
        reader, writer = await asyncio.open_connection(*address_of(fleet), limit=2**20)
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(stray)
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert b"HTTP/1.1" not in answer
        writer.close()


async def test_framing_without_end(fleet: Fleet) -> None:
    """Trailers and chunk extensions are refused within some 64 KiB."""
    head = request_head({}, length=0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    for endless in (b"0\r\nx: ", b"0\r\n", b"1;"):
        reader, writer = await asyncio.open_connection(*address_of(fleet))
        answering = asyncio.create_task(reader.readuntil(b"}}"))
        writer.write(head + endless)
        for _ in range(100):
            writer.write(b"a: b\r\n" * 2000 if endless.endswith(b"\n") else b"a" * 10_000)
            # sleep: the bytes arrive in several reads; how they are divided decides nothing
            await asyncio.sleep(0.002)
            if answering.done():
                break
        async with asyncio.timeout(60):
            assert (await answering).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def status_of(fleet: Fleet, body: bytes) -> int:
    """Send this body until it is answered."""
    reader, writer = await asyncio.open_connection(*address_of(fleet))
    answering = asyncio.create_task(reader.readline())
    writer.write(request_head({}, length=len(body)))
    with suppress(ConnectionError):
        for start in range(0, len(body), 65_536):
            if answering.done():
                break
            writer.write(body[start : start + 65_536])
            await writer.drain()
    async with asyncio.timeout(60):
        status = int((await answering).split()[1])
    writer.close()
    return status
