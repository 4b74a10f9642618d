"""Send thousands of fuzz cases per second and judge the answers.

One asyncio connection per worker, kept alive while possible, with just enough HTTP to find the end
of an answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass

from benchmarks.fuzz.cases import Case

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
_RETRY_AFTER = re.compile(rb"\r\nretry-after: *(\S+)", re.I)


@dataclass(frozen=True, slots=True)
class Answer:
    """The gateway's answer; status 0 for a connection closed without one."""

    status: int
    head: bytes = b""
    body: bytes = b""
    closed: bool = False


class Wire:
    """One client with one connection. Tasks must not share it."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._port = port
        self._timeout_s = timeout_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, case: Case) -> Answer:
        """Send one case and read its answer; TimeoutError if neither answer nor close comes."""
        reader, writer = await self._connect()
        try:
            async with asyncio.timeout(self._timeout_s):
                writer.write(case.data)
                if case.leaves:
                    await writer.drain()
                    answer = Answer(0, closed=True)
                else:
                    answer = await _read_answer(reader, case.is_head)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            answer = Answer(0, closed=True)
        except TimeoutError:
            self.close()
            raise
        if answer.closed or case.closes:
            self.close()
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        return self._streams


async def _read_answer(reader: asyncio.StreamReader, is_head: bool) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    status = _STATUS.match(head)
    if status is None:
        return Answer(0, head, closed=True)
    lowered = head.lower()
    closed = b"\r\nconnection: close" in lowered
    length = _LENGTH.search(head)
    if is_head or int(status[1]) < 200:
        return Answer(int(status[1]), head, closed=closed)
    if length is not None:
        body = await reader.readexactly(int(length[1]))
    elif b"\r\ntransfer-encoding: chunked" in lowered:
        body = await _read_chunks(reader)
    else:
        body, closed = await reader.read(), True
    return Answer(int(status[1]), head, body, closed)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


def fault_of(case: Case, answer: Answer) -> str | None:
    """What is wrong with this answer, in a few words; None for a correct one."""
    if answer.status == 0:
        return "no answer" if case.must_answer else None
    if answer.status >= 500:
        return f"a {answer.status}"
    if answer.status >= 400 and not case.is_head and not _is_our_error(answer):
        return "an error in another shape"
    retry_after = _RETRY_AFTER.search(answer.head)
    if retry_after is not None and not (retry_after[1].isdigit() and int(retry_after[1]) <= 120):
        return "a Retry-After that clients ignore"
    if answer.status == 200 and b"text/event-stream" in answer.head and not _is_whole(answer.body):
        return "a stream that ends silently"
    return None


def _is_our_error(answer: Answer) -> bool:
    try:
        document = json.loads(answer.body)
        return set(document["error"]) == {"message", "type", "param", "code"} and set(document) == {
            "error"
        }
    except (ValueError, KeyError, TypeError):
        return False


def _is_whole(body: bytes) -> bool:
    ends = (b"data: [DONE]", b"event: response.completed", b'"error":{', b"event: error")
    return any(end in body for end in ends)
