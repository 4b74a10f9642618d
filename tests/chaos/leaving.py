"""A client that closes its connection at a chosen moment of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from enum import StrEnum

from chaos.expected_requests import Known
from chaos.fleet import Fleet


class Moment(StrEnum):
    QUEUED = "queued"
    """Before the gateway sent it to a replica."""
    IN_PREFILL = "in prefill"
    """A replica reads the prompt."""
    FIRST_TOKEN = "first token"
    SOME_TOKENS = "some tokens"
    LAST_TOKEN = "last token"
    """The finish reason has come; what stands behind it may not have."""


_SOME_TOKENS = 10
_LOOK_S = 0.005


async def leave(fleet: Fleet, asked: Known, name: str, moment: Moment) -> float:
    """Ask, close the connection at that moment, and return when that was, by the wall clock."""
    host, _, port = fleet.served.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        body = json.dumps(asked.body).encode()
        writer.write(
            f"POST {asked.path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"x-request-id: {name}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        if moment is Moment.QUEUED:
            await asyncio.sleep(0.2)
        elif moment is Moment.IN_PREFILL or not asked.body.get("stream"):
            await _wait_at_replica(fleet, name, asked, moment)
        else:
            await _read_until(reader, asked, moment)
    finally:
        left_at_s = time.time()
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return left_at_s


async def _read_until(reader: asyncio.StreamReader, asked: Known, moment: Moment) -> None:
    num_texts = 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        num_texts += b'"content":' in line or b'"text":' in line
        # The first chunk of a chat holds the role alone.
        num_tokens = num_texts - (asked.path != "/v1/completions")
        is_last = b'"finish_reason":"' in line
        wanted = {Moment.FIRST_TOKEN: 1, Moment.SOME_TOKENS: _SOME_TOKENS}.get(moment)
        if is_last or (wanted is not None and num_tokens >= wanted):
            return


async def _wait_at_replica(fleet: Fleet, name: str, asked: Known, moment: Moment) -> None:
    """By the ledger of whichever replica has it: begun, first token, or time for more."""
    while True:
        for record in fleet.records_of(name):
            if moment is Moment.IN_PREFILL:
                await asyncio.sleep(0.05)
                return
            if record.ending is not None:
                return
            if record.first_token_s is not None and moment is not Moment.LAST_TOKEN:
                await asyncio.sleep(0.1 if moment is Moment.SOME_TOKENS else 0)
                return
        await asyncio.sleep(_LOOK_S)
