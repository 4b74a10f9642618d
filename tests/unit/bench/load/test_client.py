"""The streaming client against a simulated server whose truth is known.

Exact times come from a clock that stands still until the server moves it: the server waits until
the client has read the clock for the chunk before.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
from polling import until
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.records import RequestOutcome
from paceline.foundation.workloads import Prompt, SamplingSettings, Turn, build_spec
from unit.bench.simulated import SimulatedServer, scripted_spec


class SteppedClock:
    """Shows `now_s`; counts how often it was read, so that a server can await a reading."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.num_readings = 0

    def __call__(self) -> float:
        self.num_readings += 1
        return self.now_s

    async def wait_for_readings(self, count: int) -> None:
        await until(lambda: self.num_readings >= count)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def client_of(
    session: aiohttp.ClientSession, server: SimulatedServer, timeout_s: float = 60.0
) -> StreamingClient:
    return StreamingClient(session, URL(server.url), "secret", timeout_s)


async def test_measured_times_equal_the_servers_truth(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    """Due at 0, sent at 0.25, content at 1, 2 and 4, end at 7, 9 tokens: TPOT (7 - 1) / 8."""
    clock = SteppedClock()
    clock.now_s = 100.25
    times_s = [100.5, 101.0, 102.0, 104.0, 107.0]

    async def step(number: int) -> None:
        await clock.wait_for_readings(number + 1)  # the sending, and each chunk before this
        clock.now_s = times_s[number]

    server.before_chunk = step
    client = StreamingClient(session, URL(server.url), None, 20.0, clock)
    # The first chunk is empty, like one that holds half a character: no first token yet.
    spec = scripted_spec(chunks=["", "a", "bc", "d"], tokens=9)
    record = await client.send(spec, scheduled_s=0.0, zero_s=100.0)
    assert record.outcome is RequestOutcome.OK
    assert record.dispatch_delay_s == 0.25
    assert record.ttft_s == 1.0
    assert record.chunk_gaps_s == (1.0, 2.0)
    assert record.e2e_s == 7.0
    assert record.tpot_s == 0.75
    assert (record.prompt_tokens, record.output_tokens) == (4, 9)


async def test_on_the_real_clock_no_latency_is_shorter_than_the_truth(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    """Four chunks 30 ms apart; the upper bound only says that the figures are seconds.

    The first one may be read late, so the time after it has no lower bound.
    """
    spec = scripted_spec(chunks=["a"] * 4, tokens=4, delay_s=0.03)
    record = await client_of(session, server).send(spec, 0.0, time.perf_counter())
    assert record.ttft_s is not None
    assert record.tpot_s is not None
    assert 0.029 <= record.ttft_s < 60
    assert 0.029 * 4 <= record.e2e_s < 60
    assert record.tpot_s == pytest.approx((record.e2e_s - record.ttft_s) / 3)


@pytest.mark.parametrize(
    ("fail", "outcome", "message"),
    [
        ("status", RequestOutcome.HTTP_ERROR, "status 400: no such thing"),
        ("error", RequestOutcome.STREAM_ERROR, "engine died"),
        ("garbage", RequestOutcome.STREAM_ERROR, "cannot parse the stream"),
        ("truncate", RequestOutcome.TRUNCATED, "after 3 chunks"),
        ("abort", RequestOutcome.CONNECTION, ""),
    ],
)
async def test_each_failure_has_its_outcome(
    server: SimulatedServer,
    session: aiohttp.ClientSession,
    fail: str,
    outcome: RequestOutcome,
    message: str,
) -> None:
    record = await client_of(session, server).send(
        scripted_spec(fail=fail), 0.0, time.perf_counter()
    )
    assert record.outcome is outcome
    assert record.error is not None
    assert message in record.error


async def test_a_server_that_hangs_is_a_timeout(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    client = client_of(session, server, timeout_s=0.3)
    record = await client.send(scripted_spec(fail="hang"), 0.0, time.perf_counter())
    assert record.outcome is RequestOutcome.TIMEOUT
    assert record.error == "the stream did not end within 0.3 s (--timeout)"


async def test_an_absent_server_is_a_connection_outcome(session: aiohttp.ClientSession) -> None:
    with socket.socket() as bound:  # nothing listens there, and nothing else can
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        client = StreamingClient(session, URL(f"http://127.0.0.1:{port}"), None, 60.0)
        record = await client.send(scripted_spec(), 0.0, time.perf_counter())
    assert record.outcome is RequestOutcome.CONNECTION


async def test_an_answer_without_usage_succeeds_with_unknown_tokens(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    record = await client_of(session, server).send(
        scripted_spec(fail="usage"), 0.0, time.perf_counter()
    )
    assert record.outcome is RequestOutcome.OK
    assert record.output_tokens is None


async def test_the_key_travels_as_bearer_token(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    await client_of(session, server).send(scripted_spec(), 0.0, time.perf_counter())
    assert server.headers[0]["Authorization"] == "Bearer secret"


async def test_cancellation_passes_and_is_no_outcome(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    task = asyncio.create_task(
        client_of(session, server).send(scripted_spec(fail="hang"), 0.0, time.perf_counter())
    )
    async with asyncio.timeout(60):
        await server.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_request_id_travels_and_is_recorded(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    spec = dataclasses.replace(scripted_spec(), request_id="bench-1-0-7")
    record = await client_of(session, server).send(spec, 0.0, time.perf_counter())
    assert server.header(0, "x-request-id") == "bench-1-0-7"
    assert record.request_id == "bench-1-0-7"


async def test_the_answer_is_kept_only_for_a_session(
    server: SimulatedServer, session: aiohttp.ClientSession
) -> None:
    """The simulated server answers chats with the deltas of its script."""
    script = json.dumps({"chunks": ["he", "llo"]})
    chat = Prompt("chat", ({"role": "user", "content": script},), None, None, turns=(Turn("on"),))
    sampling = SamplingSettings("simulated", 0.0, None, None, 0, {})
    with_turns = build_spec(chat, sampling, 0)
    record = await client_of(session, server).send(with_turns, 0.0, time.perf_counter())
    assert record.answer == "hello"
    alone = build_spec(dataclasses.replace(chat, turns=()), sampling, 0)
    record = await client_of(session, server).send(alone, 0.0, time.perf_counter())
    assert record.answer is None


_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%s\r\n"
    b"Transfer-Encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
)


class ClosingServer:
    """Answers the first request of each connection and closes it at the second one, as llama.cpp's
    server does, whose close a client notices only when it has sent."""

    def __init__(self) -> None:
        self.num_received = 0
        self.answers = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            self.num_received += 1
            if number or not self.answers:
                break
            if b"connection: close" in head.lower():
                writer.write(_ANSWER % b"Connection: close")
                break
            writer.write(_ANSWER % b"Keep-Alive: timeout=5")
        writer.close()


async def test_a_request_on_a_connection_that_the_server_closed_is_sent_again(
    session: aiohttp.ClientSession,
) -> None:
    """From then on each request has its own connection, and a failure is a failure."""
    closing = ClosingServer()
    listening = await asyncio.start_server(closing.serve, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        client = StreamingClient(session, URL(f"http://127.0.0.1:{port}"), None, 60.0)
        spec = scripted_spec(chunks=["a"], tokens=1)
        for num_requests, num_received in ((3, 3), (1, 7), (1, 8)):
            # The second time, all three kept connections are tried, and then a new one.
            sent = (client.send(spec, 0.0, 0.0) for _ in range(num_requests))
            records = await asyncio.gather(*sent)
            assert {record.outcome for record in records} == {RequestOutcome.OK}
            assert closing.num_received == num_received
        closing.answers = False
        assert (await client.send(spec, 0.0, 0.0)).outcome is RequestOutcome.CONNECTION
        assert closing.num_received == 9
        async with aiohttp.ClientSession() as fresh:
            client = StreamingClient(fresh, URL(f"http://127.0.0.1:{port}"), None, 60.0)
            assert (await client.send(spec, 0.0, 0.0)).outcome is RequestOutcome.CONNECTION
        assert closing.num_received == 10
