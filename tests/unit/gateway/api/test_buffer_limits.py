"""Memory, connections and slow readers are bounded; a refused request is refused at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway.http.byte_budget import REQUEST_BYTES
from paceline.runtime.gateway.http.listening import bind
from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import join_key, render_line
from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.conftest import Serve, Served, chat, until
from unit.gateway.keys.records import SECRET, record

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}
MIB = 1024 * 1024
HEAD = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n".encode()


async def buffered_bytes(served: Served) -> float:
    lines = (await served.admin.get("/metrics")).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("paceline_buffered_"))


def long_chat(num_bytes: int) -> bytes:
    body = json.dumps(chat(messages=[{"role": "user", "content": "x" * num_bytes}]))
    return body.encode()


@contextlib.asynccontextmanager
async def holding_large_request(served: Served) -> AsyncIterator[None]:
    """A request that needs more than the whole budget, the only one of its kind at a time."""
    before = await buffered_bytes(served)
    _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(HEAD + b"content-length: 4000000\r\n\r\n{")
    await until_async(lambda: buffered_bytes(served), lambda held: held > before)
    yield
    writer.close()
    await until_async(lambda: buffered_bytes(served), lambda held: held <= before)


async def until_async(
    read: Callable[[], Awaitable[float]], is_right: Callable[[float], bool]
) -> None:
    async with asyncio.timeout(60):
        while not is_right(await read()):
            pass


async def test_a_body_without_room_is_refused_before_it_is_sent(serve: Serve) -> None:
    async with serve(max_buffered_bytes=2 * MIB, max_body_bytes=8 * MIB) as served:
        async with holding_large_request(served):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
            writer.write(HEAD + b"content-length: 1000000\r\n\r\n{")
            async with asyncio.timeout(60):
                answer = await reader.readuntil(b"}}")
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 5\r\n" in answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "buffers_full"
            writer.close()
            fits = await served.http.post(CHAT, content=long_chat(300_000), headers=JSON)
            assert fits.status_code == 200
        assert await buffered_bytes(served) == 0


async def test_a_chunked_body_is_refused_when_the_room_ends(serve: Serve) -> None:
    async with (
        serve(max_buffered_bytes=2 * MIB, max_body_bytes=8 * MIB) as served,
        holding_large_request(served),
    ):
        before = await buffered_bytes(served)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        answering = asyncio.create_task(reader.readuntil(b"}}"))
        writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(60):
            if answering.done() or writer.is_closing():
                break  # refused; the gateway closes a second later
            writer.write(b"c350\r\n" + b" " * 50_000 + b"\r\n")
            await turns_of_the_event_loop()
        async with asyncio.timeout(60):
            assert (await answering).startswith(b"HTTP/1.1 503 ")
        writer.close()
        assert await buffered_bytes(served) == before


@pytest.mark.parametrize("num_bytes", [700_000, 8 * MIB - 200])
@pytest.mark.parametrize("char", ["x", "😀"])
@pytest.mark.parametrize("fraction", [0.001, 1.0])
async def test_an_idle_gateway_serves_one_body_of_any_allowed_size(
    serve: Serve, tmp_path: Path, num_bytes: int, char: str, fraction: float
) -> None:
    change_text(tmp_path / "keys", lambda _: render_line(record(id="a" * 8, tenant="aa")))
    bearer = {"authorization": f"Bearer {join_key('a' * 8, SECRET)}", **JSON}
    async with serve(
        keys=KeySettings(file=tmp_path / "keys"),
        max_buffered_bytes=2 * MIB,
        max_tenant_buffered_fraction=fraction,
        max_body_bytes=8 * MIB,
    ) as served:
        text = char * (num_bytes // len(char.encode()))
        served.source.current = [replace(served.source.current[0], max_model_len=None)]
        body = json.dumps(
            chat(messages=[{"role": "user", "content": text}]), ensure_ascii=False
        ).encode()
        for _ in range(2):
            answer = await served.http.post(CHAT, content=body, headers=bearer)
            assert answer.status_code == 200, answer.text
        assert await buffered_bytes(served) == 0


async def test_what_waits_counts_until_it_is_answered(serve: Serve) -> None:
    async with serve(max_buffered_bytes=3 * REQUEST_BYTES, max_body_bytes=8 * MIB) as served:
        served.engine.mode = "hang"
        waiting = [
            asyncio.create_task(served.http.post(CHAT, json=chat(), timeout=60)) for _ in range(2)
        ]
        await until(lambda: served.engine.num_begun == 2)
        assert await buffered_bytes(served) > 2 * REQUEST_BYTES
        answer = await served.http.post(CHAT, json=chat())
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "buffers_full")
        for task in waiting:
            task.cancel()
        await until(lambda: served.num_in_flight == 0)
        served.engine.mode = "answer"
        assert (await served.http.post(CHAT, json=chat())).status_code == 200
        assert await buffered_bytes(served) == 0


async def test_one_tenant_leaves_room_for_the_others(serve: Serve, tmp_path: Path) -> None:
    lines = [render_line(record(id=name * 4, tenant=name)) for name in ("aa", "bb")]
    change_text(tmp_path / "keys", lambda _: "".join(lines))
    keys = KeySettings(file=tmp_path / "keys")
    bearers = {
        name: {"authorization": f"Bearer {join_key(name * 4, SECRET)}", **JSON}
        for name in ("aa", "bb")
    }
    async with serve(keys=keys, max_buffered_bytes=4 * MIB, max_body_bytes=8 * MIB) as served:
        served.engine.mode = "hang"
        waiting = asyncio.create_task(
            served.http.post(CHAT, content=long_chat(400_000), headers=bearers["aa"])
        )
        await until(lambda: served.engine.num_begun == 1)
        served.engine.mode = "answer"
        statuses = {}
        for name, headers in bearers.items():
            for num_bytes in (100_000, 400_000):
                answer = await served.http.post(CHAT, content=long_chat(num_bytes), headers=headers)
                statuses[name, num_bytes] = answer.status_code
                if answer.status_code == 429:
                    assert answer.json()["error"]["code"] == "tenant_buffers_full"
        waiting.cancel()
        assert statuses == {
            ("aa", 100_000): 200, ("aa", 400_000): 429, ("bb", 100_000): 200, ("bb", 400_000): 200,
        }  # fmt: skip


async def test_an_answer_without_room_is_a_503_and_no_fault_of_the_replica(serve: Serve) -> None:
    async with (
        serve(max_buffered_bytes=2 * MIB, max_body_bytes=8 * MIB) as served,
        holding_large_request(served),
    ):
        served.engine.tokens = ["x" * 4 * MIB]
        answer = await served.http.post(CHAT, json=chat())
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "buffers_full")
        assert served.gateway.traffic.breaker_states()["r0"] == "closed"
        assert served.engine.num_begun == 1
        assert await served.outcomes() == {"overloaded": 1}


async def test_a_long_answer_counts_while_its_client_reads_it(serve: Serve) -> None:
    async with serve() as served:
        served.engine.tokens = ["x" * 8 * MIB]
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port, limit=1000)
        body = json.dumps(chat()).encode()
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        await reader.readexactly(100)
        assert await buffered_bytes(served) > 8 * MIB
        async with asyncio.timeout(60):
            while b"}]" not in await reader.read(100_000):
                pass
        writer.close()
        assert await buffered_bytes(served) < MIB


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_reads_too_slowly_is_dropped(serve: Serve, is_stream: bool) -> None:
    """It reads a little in every period."""
    limits = {"client_stall_timeout_s": 0.4, "min_client_bytes_per_s": 100_000}
    async with serve(**limits, response_timeout_s=60, stall_timeout_s=60) as served:
        served.engine.mode = "flood" if is_stream else "answer"
        served.engine.tokens = ["x" * 16 * MIB]
        body = json.dumps(chat(stream=is_stream)).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", served.gateway.port))
            client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
            client.setblocking(False)
            async with asyncio.timeout(60):
                while not await served.outcomes():
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        client.recv(500)
                    # sleep: the client is slow by design; a slower one is dropped as well
                    await asyncio.sleep(0.05)
        assert await served.outcomes() == {"client_gone": 1}
        assert await buffered_bytes(served) == 0


def test_the_buffers_of_a_connection_in_the_kernel_are_bounded() -> None:
    """The kernel would let them grow to several MB each, outside of every budget."""
    with bind("127.0.0.1", 0, "port") as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                assert accepted.getsockopt(socket.SOL_SOCKET, option) <= 1024 * 1024
            accepted.setblocking(False)
            num_sent = 0
            with contextlib.suppress(BlockingIOError):
                while num_sent < 64 * MIB:
                    num_sent += accepted.send(b"x" * 65_536)
            assert num_sent < MIB
