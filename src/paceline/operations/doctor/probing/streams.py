"""Compare the tokens of streams with the usage that the server counts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from paceline.foundation.load.sse import SseDecoder

_TIMEOUT = aiohttp.ClientTimeout(total=30)
_NUM_STREAMS = 4
_MAX_TOKENS = 32
_MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class StreamCount:
    """One stream; None where the server shows no token ids or no usage."""

    request: str
    streamed: int | None
    counted: int | None


async def count_streams(
    session: aiohttp.ClientSession, server: URL, api_key: str | None, model: str
) -> list[StreamCount]:
    """Some short streams at once. Failed ones have no counts."""
    return list(
        await asyncio.gather(
            *(
                _count(session, server, api_key, model, f"doctor-{index}")
                for index in range(_NUM_STREAMS)
            )
        )
    )


async def _count(
    session: aiohttp.ClientSession, server: URL, api_key: str | None, model: str, name: str
) -> StreamCount:
    headers = {"x-request-id": name}
    if api_key is not None:
        headers["authorization"] = f"Bearer {api_key}"
    body = {
        "model": model,
        "prompt": f"Count to ten. ({name})",
        "max_tokens": _MAX_TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    try:
        async with session.post(
            server / "v1" / "completions", json=body, headers=headers, timeout=_TIMEOUT,
            allow_redirects=False,
        ) as response:  # fmt: skip
            if response.status != 200:
                return StreamCount(name, None, None)
            return await _read(response, name)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return StreamCount(name, None, None)


async def _read(response: aiohttp.ClientResponse, name: str) -> StreamCount:
    decoder = SseDecoder()
    streamed: int | None = None
    counted: int | None = None
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > _MAX_BYTES:
            return StreamCount(name, None, None)
        for data in decoder.feed(chunk):
            if data == b"[DONE]":
                continue
            event = json.loads(data)
            ids, usage = _ids_and_usage(event)
            if ids is not None:
                streamed = (streamed or 0) + ids
            counted = usage if usage is not None else counted
    return StreamCount(name, streamed, counted)


def _ids_and_usage(event: Any) -> tuple[int | None, int | None]:
    """Number of token ids and the count of completion tokens of one event.

    >>> _ids_and_usage({"choices": [{"token_ids": [5, 6]}], "usage": {"completion_tokens": 2}})
    (2, 2)
    """
    if not isinstance(event, dict):
        return None, None
    ids = [
        len(choice["token_ids"])
        for choice in event.get("choices") or ()
        if isinstance(choice, dict) and isinstance(choice.get("token_ids"), list)
    ]
    usage = event.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return (sum(ids) if ids else None), (count if isinstance(count, int) else None)
