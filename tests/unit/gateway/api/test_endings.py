"""Every request ends with its outcome, and releases its connection and its lease."""

from __future__ import annotations

import asyncio
import json
import random
import select
import socket
from dataclasses import replace

import httpx
import openai
import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway import serve_gateway
from paceline.runtime.gateway.data_port import DataPort
from paceline.runtime.gateway.http.listening import bind
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.outcomes import Outcome
from unit.gateway.conftest import SETTINGS, FixedReplicas, Serve, Served, chat, until
from unit.gateway.fake_engine import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAT = "/v1/chat/completions"


async def test_a_client_that_leaves_a_stream_aborts_it_at_the_engine(served: Served) -> None:
    served.engine.mode = "stall"
    async with served.http.stream("POST", CHAT, json=chat(stream=True)) as answer:
        await anext(answer.aiter_bytes())
        assert served.num_in_flight == 1
    await until(lambda: served.engine.num_aborted == 1)
    await until(lambda: served.num_in_flight == 0)
    assert await served.outcomes() == {"client_gone": 1}


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_before_the_first_byte_aborts_it(
    served: Served, is_stream: bool
) -> None:
    served.engine.mode = "hang"
    request = asyncio.create_task(served.http.post(CHAT, json=chat(stream=is_stream)))
    await until(lambda: served.engine.num_begun == 1)
    request.cancel()
    await until(lambda: served.engine.num_aborted == 1)
    await until(lambda: served.num_in_flight == 0)
    assert await served.outcomes() == {"client_gone": 1}


async def test_a_client_that_leaves_while_sending_reaches_no_engine(
    served: Served,
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n"
    )
    writer.write(b"content-type: application/json\r\n\r\n{")
    await writer.drain()
    await turns_of_the_event_loop()
    writer.close()
    assert await until(served.outcomes) == {"client_gone": 1}
    assert served.engine.num_begun == 0


async def test_a_hundred_clients_that_leave_at_random_leave_no_request_open(served: Served) -> None:
    served.engine.mode = "drip"
    served.engine.tokens = ["a"] * 10
    chance = random.Random(7)

    async def send_and_leave(delay_s: float, is_stream: bool) -> None:
        body = json.dumps(chat(stream=is_stream)).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n")
        writer.write(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await asyncio.sleep(delay_s)  # sleep: the counts hold whenever the clients leave
        writer.close()

    await asyncio.gather(
        *(send_and_leave(chance.uniform(0, 0.3), chance.random() < 0.8) for _ in range(100))
    )
    await until(lambda: repr(served.gateway.traffic) == "LeaseTable({})")
    counts = await served.outcomes()
    assert set(counts) <= {"client_gone", "completed"}
    assert sum(counts.values()) == 100
    engine = served.engine
    await until(lambda: engine.num_begun == engine.num_aborted + engine.num_finished)
    assert engine.num_aborted > 0


async def test_a_stream_whose_engine_dies_ends_with_an_error_event(served: Served) -> None:
    """The client never gets the half event that the engine sent last."""
    served.engine.mode = "die"
    answer = await served.http.post(CHAT, json=chat(stream=True))
    first, second = answer.text.rstrip("\n").split("\n\n")
    assert served.engine.tokens[0].strip() in first
    error = json.loads(second.removeprefix("data: "))["error"]
    assert (error["type"], error["code"]) == ("service_unavailable_error", "engine_unavailable")
    assert set(error) == {"message", "type", "param", "code"}
    assert await served.outcomes() == {"broken": 1}


@pytest.mark.parametrize("mode", ["die", "cut"])
async def test_the_openai_client_raises_on_a_broken_stream(served: Served, mode: str) -> None:
    served.engine.mode = mode
    client = openai.AsyncOpenAI(
        base_url=f"{served.gateway.url}/v1", api_key="unused", max_retries=0
    )
    stream = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hello"}], stream=True
    )
    with pytest.raises(openai.APIError, match="ended before it was complete"):
        async for _ in stream:
            pass


async def test_an_engine_that_dies_before_answering_is_a_503(served: Served) -> None:
    served.engine.mode = "dead"
    answer = await served.http.post(CHAT, json=chat())
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert await served.outcomes() == {"broken": 1}
    assert served.num_in_flight == 0


async def test_an_unreachable_engine_is_a_503(served: Served) -> None:
    missing = served.engine.socket.with_name("missing.sock")
    served.source.current = [replace(served.source.current[0], address=str(missing))]
    answer = await served.http.post(CHAT, json=chat(stream=True))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["error"]["code"] == "engine_unavailable"
    assert str(missing) not in answer.text
    assert await served.outcomes() == {"unreachable": 1}


@pytest.mark.parametrize("state", ["starting", "down"])
async def test_an_unready_engine_is_a_503(served: Served, state: str) -> None:
    served.source.current = [replace(served.source.current[0], state=state)]
    answer = await served.http.post(CHAT, json=chat())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert f"1 {state}" in answer.json()["error"]["message"]
    ready = await served.http.get("/ready")
    assert (ready.status_code, ready.headers["retry-after"]) == (503, "5")
    assert (await served.http.get("/health")).status_code == 200
    assert await served.outcomes() == {"unavailable": 1}


@pytest.mark.parametrize("state", ["starting", "down"])
async def test_an_unknown_model_of_an_unready_replica_is_a_503(served: Served, state: str) -> None:
    """A 404 would be final; the replica may still turn out to serve the model."""
    served.source.current = [replace(served.source.current[0], state=state, model="")]
    answer = await served.http.post(CHAT, json=chat())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_health_and_ready_answer_when_an_engine_is_ready(served: Served) -> None:
    assert (await served.http.get("/health")).json() == {"status": "alive"}
    ready = await served.http.get("/ready")
    assert (ready.status_code, ready.json()["ready"]) == (200, 1)


async def test_an_engine_that_sends_nothing_is_a_504(serve: Serve) -> None:
    """On a busy machine also one that has not read the request yet."""
    async with serve(first_byte_timeout_s=0.1) as served:
        served.engine.mode = "hang"
        answer = await served.http.post(CHAT, json=chat(stream=True))
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "engine_timeout"
        await until(lambda: served.engine.num_aborted == served.engine.num_begun)
        assert await served.outcomes() == {"timed_out": 1}


async def test_a_stream_that_stalls_ends_with_an_error_event(serve: Serve) -> None:
    async with serve(stall_timeout_s=0.1) as served:
        served.engine.mode = "stall"
        answer = await served.http.post(CHAT, json=chat(stream=True))
        last = answer.text.rstrip("\n").split("\n\n")[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_timeout"
        await until(lambda: served.engine.num_aborted == 1)
        assert await served.outcomes() == {"timed_out": 1}


async def test_a_client_that_does_not_read_holds_the_engine_back(serve: Serve) -> None:
    """Back-pressure reaches the engine, memory stays bounded, and the request ends."""
    async with serve(client_stall_timeout_s=1.0) as served:
        served.engine.mode = "flood"
        body = json.dumps(chat(stream=True)).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port, limit=1000)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n")
        writer.write(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await until(lambda: served.engine.num_flooded > 0)
        await until(lambda: served.num_in_flight == 0)
        assert await served.outcomes() == {"client_gone": 1}
        assert served.engine.num_flooded < 2000  # 20 MB; a second of reading would be more
        writer.close()


def unread(port: int, body: bytes, num_requests: int = 1) -> socket.socket:
    """A connection on which requests were sent and no answer is read."""
    client = socket.socket()
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    client.sendall((head + body) * num_requests)
    return client


def has_been_reset(client: socket.socket) -> bool:
    poll = select.poll()
    poll.register(client, select.POLLERR)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def read_all(client: socket.socket) -> int:
    num_bytes = 0
    while data := client.recv(65536):
        num_bytes += len(data)
    return num_bytes


@pytest.mark.parametrize("num_requests", [1, 2])
@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_never_reads_is_reset(
    serve: Serve, is_stream: bool, num_requests: int
) -> None:
    """During a stream, after a whole answer, and with another request queued after it."""
    async with serve(client_stall_timeout_s=0.3) as served:
        served.engine.mode = "flood" if is_stream else "answer"
        served.engine.tokens = ["x" * 16_000_000]
        body = json.dumps(chat(stream=is_stream)).encode()
        with unread(served.gateway.port, body, num_requests) as client:
            await until(lambda: served.engine.num_begun > 0)
            await until(lambda: served.num_in_flight == 0)
            await until(lambda: has_been_reset(client))
            with pytest.raises(ConnectionResetError):
                await asyncio.to_thread(read_all, client)


async def test_a_client_that_reads_slowly_gets_everything(serve: Serve) -> None:
    """The stall limit starts again whenever the client reads."""
    async with serve(client_stall_timeout_s=3.0) as served:
        served.engine.tokens = ["x" * 16_000_000]
        body = json.dumps(chat()).encode()
        with unread(served.gateway.port, body) as client:
            client.settimeout(None)  # with a timeout, MSG_WAITALL would not wait for all bytes
            for _ in range(8):
                # sleep: 4 s in all, in pauses of a sixth of the limit
                await asyncio.sleep(0.5)
                part = await asyncio.to_thread(client.recv, 2_000_000, socket.MSG_WAITALL)
                assert len(part) == 2_000_000
        assert await served.outcomes() == {"completed": 1}


async def test_stopping_does_not_wait_for_a_client_that_never_reads(serve: Serve) -> None:
    async with serve(client_stall_timeout_s=600.0) as served:
        served.engine.mode = "flood"
        body = json.dumps(chat(stream=True)).encode()
        async with asyncio.timeout(60):
            async with serve_gateway(SETTINGS, served.source) as gateway:
                client = unread(gateway.port, body)
                await until(lambda: served.engine.num_flooded > 0)
                await turns_of_the_event_loop(200)
        client.close()
        assert repr(gateway.traffic) == "LeaseTable({})"


async def test_stopping_drains_requests(serve: Serve) -> None:
    async with serve(drain_timeout_s=60) as served:
        served.engine.mode = "drip"
        served.engine.tokens = ["a"] * 20
        second_source = FixedReplicas(served.source.current)
        async with serve_gateway(replace(SETTINGS, drain_timeout_s=60), second_source) as gateway:
            client = httpx.AsyncClient(base_url=gateway.url, timeout=60)
            request = asyncio.ensure_future(client.post(CHAT, json=chat(stream=True)))
            await until(lambda: served.engine.num_begun == 1)
        answer = await request
        assert answer.text.endswith("data: [DONE]\n\n")
        await client.aclose()


async def test_stopping_ends_streams_that_do_not_drain_with_an_error_event(served: Served) -> None:
    served.engine.mode = "stall"
    async with httpx.AsyncClient(timeout=60) as client:
        async with serve_gateway(SETTINGS, served.source) as gateway:
            request = client.build_request("POST", gateway.url + CHAT, json=chat(stream=True))
            answer = await client.send(request, stream=True)
            parts = answer.aiter_text()
            text = await anext(parts)
        text += "".join([part async for part in parts])
    assert text.rstrip("\n").endswith('"code":"server_stopping"}}')
    await until(lambda: served.engine.num_aborted == 1)
    assert repr(gateway.traffic) == "LeaseTable({})"


async def test_a_refusal_keeps_its_outcome_when_the_gateway_stops_as_it_is_sent() -> None:
    """The gateway still reads the refused body when it stops."""
    metrics, listener = GatewayMetrics(), bind("127.0.0.1", 0, "port")
    port = DataPort(SETTINGS, metrics)
    async with port.serving(FixedReplicas([]), listener):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n")
        writer.write(b"content-type: text/plain\r\ncontent-length: 9\r\n\r\n")
        await reader.readuntil(b"}}")
    writer.close()
    counted = {
        outcome.value: metrics.registry.get_sample_value(
            "paceline_requests_total", {"outcome": outcome.value}
        )
        for outcome in (Outcome.REFUSED, Outcome.INTERNAL_ERROR)
    }
    assert counted == {"refused": 1, "internal_error": 0}
