"""A client that closes its connection at a chosen moment of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from enum import StrEnum

from polling import until

from chaos.expected_requests import COMPLETIONS, ExpectedRequest
from chaos.fleet import Fleet


class Moment(StrEnum):
    QUEUED = "queued"
    """While the request is in the gateway's queue."""
    IN_PREFILL = "in prefill"
    """While a replica prefills the prompt."""
    FIRST_TOKEN = "first token"
    SOME_TOKENS = "some tokens"
    LAST_TOKEN = "last token"
    """When the finish reason has arrived; the rest of the stream may be missing."""


_SOME_TOKENS = 10
_POLL_S = 0.005


async def disconnect_at(
    fleet: Fleet, request: ExpectedRequest, request_id: str, moment: Moment
) -> float:
    """Send the request, close the connection at that moment; returns when, by the wall clock."""
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        body = json.dumps(request.body).encode()
        writer.write(
            f"POST {request.path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"x-request-id: {request_id}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        if moment is Moment.QUEUED:
            await _wait_until_queued(fleet)
        elif moment is Moment.IN_PREFILL or not request.body.get("stream"):
            await _wait_at_replica(fleet, request_id, moment)
        else:
            await _read_until(reader, request, moment)
    finally:
        left_at_s = time.time()
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return left_at_s


async def _wait_until_queued(fleet: Fleet) -> None:
    await until(lambda: asyncio.to_thread(lambda: fleet.gateway.queue_length))


async def _read_until(
    reader: asyncio.StreamReader, request: ExpectedRequest, moment: Moment
) -> None:
    num_texts = 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        num_texts += b'"content":' in line or b'"text":' in line
        # The first chunk of a chat has only the role.
        num_tokens = num_texts - (request.path != COMPLETIONS)
        is_last = b'"finish_reason":"' in line
        wanted = {Moment.FIRST_TOKEN: 1, Moment.SOME_TOKENS: _SOME_TOKENS}.get(moment)
        if is_last or (wanted is not None and num_tokens >= wanted):
            return


async def _wait_at_replica(fleet: Fleet, request_id: str, moment: Moment) -> None:
    """Wait for the moment in the request log: begun, first token, some time later, or ended."""
    while True:
        for record in fleet.records_of(request_id):
            if moment is Moment.IN_PREFILL:
                # sleep: the client may leave at any moment of its request
                await asyncio.sleep(0.05)
                return
            if record.ending is not None:
                return
            if record.first_token_s is not None and moment is not Moment.LAST_TOKEN:
                # sleep: the client may leave at any moment of its request
                await asyncio.sleep(0.1 if moment is Moment.SOME_TOKENS else 0)
                return
        # sleep: the pause between two looks decides nothing
        await asyncio.sleep(_POLL_S)
