"""An answer to a client records what was really sent, and ends with an error where it can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from paceline.runtime.gateway.delivered import AnswerPart, TokenDelta
from paceline.runtime.gateway.http.errors import STOPPING
from paceline.runtime.gateway.http.response import ClientResponse

pytestmark = pytest.mark.asyncio

PART = AnswerPart(b"data: a\n\n", TokenDelta(0, [7], "a"))
LAST = AnswerPart(b"data: b\n\ndata: [DONE]\n\n", TokenDelta(1, [8], "b", "stop"))


class Connection:
    """Takes messages until it is blocked, like a server whose client does not read."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.is_blocked = False

    async def send(self, message: Any) -> None:
        if self.is_blocked:
            await asyncio.Event().wait()
        self.messages.append(message)

    async def cancel(self, sending: Awaitable[None]) -> None:
        """Begin to send, and give up while the client does not read."""
        self.is_blocked = True
        task = asyncio.ensure_future(sending)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.is_blocked = False


async def begun() -> tuple[Connection, ClientResponse]:
    connection = Connection()
    reply = ClientResponse(connection.send, "id")
    await reply.begin_stream()
    return connection, reply


async def test_what_was_sent_is_delivered() -> None:
    _, reply = await begun()
    assert not reply.delivered.has_data
    await reply.chunk(PART)
    assert reply.delivered.has_data
    assert list(reply.delivered.ids) == [7]
    await reply.end_stream(LAST)
    assert (reply.delivered.text, reply.delivered.finish_reason) == ("ab", "stop")
    assert reply.is_complete


async def test_what_was_cancelled_is_not() -> None:
    connection, reply = await begun()
    await connection.cancel(reply.chunk(PART))
    assert not reply.delivered.has_data
    assert list(reply.delivered.ids) == []
    await reply.chunk(PART)
    await connection.cancel(reply.end_stream(LAST))
    assert list(reply.delivered.ids) == [7]
    assert reply.delivered.finish_reason is None
    assert not reply.is_complete


async def test_comments_are_no_part_of_the_answer() -> None:
    _, reply = await begun()
    await reply.comment(b": x\n\n")
    assert not reply.delivered.has_data


async def test_an_end_that_was_cancelled_is_followed_by_the_error() -> None:
    connection, reply = await begun()
    await reply.chunk(PART)
    await connection.cancel(reply.end_stream(LAST))
    await reply.problem(STOPPING)
    assert connection.messages[-1] == {
        "type": "http.response.body", "body": STOPPING.event(), "more_body": False,
    }  # fmt: skip


async def test_a_head_that_was_cancelled_is_sent_with_the_error() -> None:
    connection = Connection()
    reply = ClientResponse(connection.send, "id")
    await connection.cancel(reply.begin_stream())
    assert not reply.has_begun
    await reply.problem(STOPPING)
    assert [message.get("status") for message in connection.messages] == [503, None]


async def test_an_answer_in_one_piece_that_has_begun_cannot_hold_an_error() -> None:
    """Its length was announced; the server closes the connection."""
    connection = Connection()
    reply = ClientResponse(connection.send, "id")

    async def block_after_head(message: Any) -> None:
        connection.messages.append(message)
        connection.is_blocked = True
        reply._send = connection.send

    reply._send = block_after_head
    await connection.cancel(reply.whole(200, b"{}"))
    await reply.problem(STOPPING)
    assert [message["type"] for message in connection.messages] == ["http.response.start"]


async def test_comments_between_named_events_have_no_number() -> None:
    """However they come: between events, at the beginning, or alone."""
    connection = Connection()
    reply = ClientResponse(connection.send, "id", names_events=True)
    await reply.begin_stream()
    await reply.comment(b":\n\n")
    await reply.chunk(AnswerPart(b":\n\nevent: a\ndata: {}\n\n:\n\n:\n\n"))
    await reply.chunk(AnswerPart(b'event: b\ndata: {"a":{}}\n\n'))
    await reply.problem(STOPPING)
    assert b'"sequence_number":2' in connection.messages[-1]["body"]


async def test_named_events_are_numbered_by_those_that_were_sent() -> None:
    connection = Connection()
    reply = ClientResponse(connection.send, "id", names_events=True)
    await reply.begin_stream()
    await reply.chunk(AnswerPart(b"event: a\ndata: {}\n\n:\n\nevent: b\ndata: {}\n\n"))
    await connection.cancel(reply.chunk(AnswerPart(b"event: c\ndata: {}\n\n")))
    await reply.problem(STOPPING)
    assert b'"sequence_number":2' in connection.messages[-1]["body"]
