"""Fetch the model name and the vLLM version that a server reports."""

from __future__ import annotations

import aiohttp
from yarl import URL

from paceline.bench.run.config import BenchError

_TIMEOUT = aiohttp.ClientTimeout(total=30)


async def fetch_model(session: aiohttp.ClientSession, server: URL, api_key: str | None) -> str:
    """The first model that /v1/models lists; BenchError when there is none."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    page = server / "v1" / "models"
    try:
        async with session.get(
            page, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            if response.status != 200:
                raise BenchError(
                    f"{page} answered with status {response.status}; is the server ready, and "
                    "does it need --api-key?"
                )
            document = await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise BenchError(
            f"cannot read {page}: {error or type(error).__name__}; is the server running?"
        ) from error
    try:
        return str(document["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise BenchError(f"{page} lists no model; name one with --model") from error


async def fetch_version(session: aiohttp.ClientSession, server: URL) -> str | None:
    """vLLM's version from /version; None when the server does not report it."""
    try:
        async with session.get(
            server / "version", timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            document = await response.json(content_type=None) if response.status == 200 else None
    except (TimeoutError, aiohttp.ClientError, ValueError, RecursionError):
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else None
