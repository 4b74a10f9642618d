"""Replicas hang or die while the gateway waits for clients that read slowly.

A part of a stream that waits for its client when the attempt is cut was not sent: another replica
has to generate it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from chaos.expected_requests import (
    ExpectedRequest,
    expected_request,
    find_errors,
    num_failed_over,
    send_all,
)
from chaos.fleet import Fleet, running_fleet, wait_until
from chaos.gateway_process import HTTP
from chaos.slow_clients.slow_reader import SlowReader

ABOUT_ALL_BUFFERS = (1400, 1400, 1400, 1400, 700, 750, 800, 850, 900, 950, 1000, 1050)
"""Tokens of the answers. About 800 fit into the buffers between gateway and client, so some streams
wait in the middle and some with their end."""
FAR_MORE = (3800,) * 8
"""No replica can have sent these to their ends before 3.8 s, and the fault comes after 1.4 s."""
NUM_FAST, FAST_TOKENS = 8, 1500


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "1", "--eos-every-tokens", "0") as running:
        yield running


@dataclass(frozen=True, slots=True)
class WaitingStream:
    """A request whose client has not read anything yet."""

    request: ExpectedRequest
    reader: SlowReader


async def waiting_streams(fleet: Fleet, name: str, lengths: Sequence[int]) -> list[WaitingStream]:
    """Send requests whose clients do not read, until the gateway waits for them."""
    before = num_generated(fleet)
    requests = [
        expected_request(number, max_tokens=length, eos_every_tokens=0)
        for number, length in enumerate(lengths)
    ]
    streams = [
        WaitingStream(
            request, SlowReader(fleet.gateway.url, request.path, request.body, f"{name}-{number}")
        )
        for number, request in enumerate(requests)
    ]
    for stream in streams:
        await stream.reader.send()
    enough = before + sum(min(length, 1400) for length in lengths)
    await asyncio.to_thread(wait_until, lambda: num_generated(fleet) >= enough)
    return streams


async def errors_of(streams: Sequence[WaitingStream], bytes_per_read: int = 65536) -> list[str]:
    """Read all streams to their ends; returns what is wrong with them.

    Records of the replicas are not compared: one may have sent the end of an answer into a buffer
    from which the gateway never read it.
    """
    transcripts = await asyncio.gather(*(one.reader.read(bytes_per_read) for one in streams))
    return [
        f"{one.reader.request_id}: {error}"
        for one, transcript in zip(streams, transcripts, strict=True)
        for error in one.request.errors_in(transcript)
    ]


def num_generated(fleet: Fleet) -> float:
    """Tokens that the replicas have generated; clients that do not read hold none of them back."""
    total = 0.0
    for mock_vllm in fleet.mock_vllms:
        lines = HTTP.get(f"{mock_vllm.url}/metrics").text.splitlines()
        (line,) = (one for one in lines if one.startswith("vllm:generation_tokens_total{"))
        total += float(line.rpartition(" ")[2])
    return total


def num_moved(fleet: Fleet, streams: Sequence[WaitingStream]) -> int:
    """The streams that more than one replica has begun or continued."""
    return sum(len(fleet.records_of(one.reader.request_id)) > 1 for one in streams)


@pytest.mark.parametrize("bytes_per_read", [pytest.param(700, marks=pytest.mark.slow), 65536])
async def test_a_replica_hangs(fleet: Fleet, bytes_per_read: int) -> None:
    """The streams of fast readers show that it hangs; all its streams are cut. It is a replica that
    serves some of them: the waiting streams load both, and not always alike."""
    name = f"hang-{bytes_per_read}"
    streams = await waiting_streams(fleet, name, (*ABOUT_ALL_BUFFERS, *FAR_MORE))
    requests = [
        expected_request(number, max_tokens=FAST_TOKENS, eos_every_tokens=0)
        for number in range(NUM_FAST)
    ]
    sending = asyncio.create_task(send_all(fleet, requests, name=f"{name}-fast"))
    [hung] = await asyncio.to_thread(
        wait_until,
        lambda: [i for i in (0, 1) if fleet.num_started(f"{name}-fast", replica=i) > 1][:1],
    )
    fleet.add_fault(hung, kind="hang")
    transcripts = await sending
    assert num_failed_over(fleet, transcripts) > 0
    assert num_moved(fleet, streams) > 2, "no stream was cut while the gateway waited for a client"
    assert await errors_of(streams, bytes_per_read) == []
    assert find_errors(fleet, requests, transcripts) == []


async def test_a_replica_dies(fleet: Fleet) -> None:
    streams = await waiting_streams(fleet, "die", FAR_MORE)
    fleet.add_fault(0, kind="die")
    assert await asyncio.to_thread(fleet.mock_vllms[0].wait) == -9
    assert await errors_of(streams) == []
    assert num_moved(fleet, streams) > 2
