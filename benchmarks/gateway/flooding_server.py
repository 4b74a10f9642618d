"""A server whose streams never end and come as fast as they are read.

    python benchmarks/gateway/flooding_server.py MODEL

It prints its URL. What is not a stream gets a short answer after half a second. The streams keep
the buffers between a replica and a client full, which a mock vLLM server with its tokens per second
cannot do for a thousand of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

ANSWER_S = 0.5
_NUM_CHARS = 16_000
_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {}\r\nconnection: close\r\n\r\n"


@contextlib.contextmanager
def flooding_server(model: str) -> Iterator[str]:
    """Run the server in a process of its own; gives its URL."""
    command = [sys.executable, __file__, model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await server.serve_forever()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"content-length:")
        body = await reader.readexactly(int(rest.split(b"\r\n")[0]) if found else 0)
        if head.startswith(b"get "):
            _write(writer, {"object": "list", "data": [{"id": _model(), "object": "model"}]})
        elif not json.loads(body).get("stream"):
            await asyncio.sleep(ANSWER_S)
            _write(writer, _chunk("x", "stop"))
        else:
            writer.write(_HEAD.format("text/event-stream").encode())
            event = b"data: " + json.dumps(_chunk("x" * _NUM_CHARS, None)).encode() + b"\n\n"
            while True:
                writer.write(event)
                await writer.drain()
        await writer.drain()
    writer.close()


def _write(writer: asyncio.StreamWriter, answer: dict[str, object]) -> None:
    writer.write((_HEAD.format("application/json") + json.dumps(answer)).encode())


def _chunk(text: str, finish_reason: str | None) -> dict[str, object]:
    choice = {"index": 0, "text": text, "finish_reason": finish_reason}
    return {
        "id": "x",
        "object": "text_completion",
        "created": 1,
        "model": _model(),
        "choices": [choice],
    }


def _model() -> str:
    return sys.argv[1]


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
