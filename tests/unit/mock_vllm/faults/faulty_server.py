"""A mock server with faults in this process, and readers of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from paceline.testing.mock_vllm import Fault, MockVllm, MockVllmSettings

_HANG_S = 60.0
_SILENT_S = 0.5
SETTINGS = MockVllmSettings(model="m", tpot_ms=1, prefill_tokens_per_s=1e6, eos_every_tokens=0)


BODY = {"model": "m", "prompt": "abc", "max_tokens": 20, "temperature": 0, "return_token_ids": True}


@asynccontextmanager
async def serving(*faults: Fault) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        MockVllm(SETTINGS, faults=faults) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        yield http


async def read_stream(
    http: httpx.AsyncClient, *, silent_after_tokens: int | None = None, **body: Any
) -> tuple[str, str]:
    """Read a stream: return its text and how it ended: done, end, broken or silent.

    `end` is a complete body without [DONE]; `silent` is 0.5 s without a part or an end after this
    number of tokens. Only a stream that must be silent is given that number, because a slow machine
    makes any other silent, too.
    """
    text = ""
    request = {**BODY, "stream": True, **body}
    loop = asyncio.get_running_loop()
    try:
        async with (
            asyncio.timeout(_SILENT_S if silent_after_tokens == 0 else _HANG_S) as limit,
            http.stream("POST", "/v1/completions", json=request) as answer,
        ):
            async for part in answer.aiter_text():
                text += part
                if silent_after_tokens is not None and len(token_ids(text)) >= silent_after_tokens:
                    limit.reschedule(loop.time() + _SILENT_S)
    except TimeoutError:
        return text, "silent"
    except httpx.HTTPError:
        return text, "broken"
    return text, "done" if text.endswith("data: [DONE]\n\n") else "end"


def token_ids(text: str) -> list[int]:
    ids: list[int] = []
    for event in text.split("\n\n"):
        try:
            for choice in json.loads(event.removeprefix("data: "))["choices"]:
                ids += choice["token_ids"]
        except (ValueError, KeyError):
            pass
    return ids


async def request_records(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await http.get("/mock_vllm/requests")).json()["records"])
