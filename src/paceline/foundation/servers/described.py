"""Fetch the model name and the vLLM version that a server reports."""

from __future__ import annotations

import aiohttp
from yarl import URL

from paceline.foundation.load.config import BenchError
from paceline.foundation.servers.default_addresses import DATA_PORT, at_port

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
                    f"{page} answered with status {response.status}"
                    f"{_advice_on(response.status, server)}"
                )
            document = await response.json(content_type=None)
    except aiohttp.ClientConnectorError as error:
        raise BenchError(
            f"{page} cannot be reached: {error}. Give the address of a running server, or start "
            "one with paceline serve"
        ) from error
    except TimeoutError as error:
        raise BenchError(
            f"{page} did not answer within {_TIMEOUT.total:g} s: the server is there, but hangs or "
            "still starts"
        ) from error
    except ValueError as error:
        raise BenchError(
            f"{page} does not answer with JSON: it is no server of the OpenAI API"
        ) from error
    except aiohttp.ClientError as error:
        raise BenchError(f"cannot read {page}: {error or type(error).__name__}") from error
    try:
        return str(document["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise BenchError(f"{page} lists no model; name one with --model") from error


def _advice_on(status: int, server: URL) -> str:
    """How to get the models after this status; empty if it does not say.

    >>> _advice_on(503, URL("http://10.0.0.5:8000"))
    ': the server is there, but not ready'
    """
    if status in (401, 403):
        return ": the server wants a key, or another one (--api-key)"
    if status == 404:
        return (
            ": give the port that takes requests, which of paceline serve is by default "
            f"{at_port(str(server), DATA_PORT)}"
        )
    return ": the server is there, but not ready" if status == 503 else ""


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
