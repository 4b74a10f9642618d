"""Clients that never read their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from chaos.expected_requests import expected_request, send_all
from chaos.fleet import IDLE, MODEL, Fleet, running_fleet, wait_until
from chaos.slow_clients.raw_requests import connected, request_head
from chaos.transcript import Ending

NUM_CLIENTS = 100
MANY_TOKENS = 30_000
"""They take two minutes."""
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    """Two fast replicas with a long context."""
    flags = ("--tpot-ms", "4", "--max-model-len", "40000", "--eos-every-tokens", "0")
    with running_fleet(2, *flags, "--tokens-per-chunk", "64") as running:
        yield running


async def test_clients_that_never_read(fleet: Fleet) -> None:
    """The gateway's memory is limited to its buffers, and other clients are served."""
    before_bytes = fleet.gateway.rss_bytes()
    async with connected(fleet, NUM_CLIENTS, receive_buffer_bytes=4096) as sockets:
        body = {"model": MODEL, "prompt": "x", "max_tokens": MANY_TOKENS, "stream": True}
        for client in sockets:
            client.sendall(request_head(body) + json.dumps(body).encode())
        # sleep: time for some 1,000 tokens per stream; the limit holds after any time
        await asyncio.sleep(4)
        wait_until(lambda: fleet.gateway.num_in_flight == NUM_CLIENTS)
        grown_bytes = fleet.gateway.rss_bytes() - before_bytes
        assert grown_bytes / NUM_CLIENTS < MIB
        # Other clients are served in the meantime.
        requests = [expected_request(number, max_tokens=8) for number in range(8)]
        transcripts = await send_all(fleet, requests, name="other-clients")
        assert {transcript.ending for transcript in transcripts} == {Ending.COMPLETED}
    wait_until(lambda: fleet.gateway.num_in_flight == 0 and fleet.loads() == [IDLE, IDLE])
