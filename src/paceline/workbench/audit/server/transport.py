"""Send JSON to a server: bounded concurrency, repeats for an overloaded server, clear errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

import aiohttp
from yarl import URL

_NUM_TRIES = 4
_RETRIED = (429, 502, 503)
_RETRY_S = 0.5
_MAX_ERROR_CHARS = 300
_OF_OTHERS = (429, 502, 503, 504)
"""Statuses of an overloaded server, and of a proxy whose server is away: anything may be why."""
_REFUSALS = (400, 404, 422, 501)
"""Statuses of a server that does not support what a request asks."""


class ServerError(Exception):
    """A request failed. The message says how; `status` is None if there was no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Mapping[str, Any] | None = None
        """Of the completion that failed."""
        self.url: str | None = None
        """Of the server that failed on it."""
        self.is_timeout = False
        """The answer took too long, as it may on a server that is busy or hangs."""
        self.was_sent = True
        """False: no connection could be made, so an earlier request may have ended the server."""
        self.was_alone = False
        """No other request of the audit was in flight beside it."""

    @property
    def may_have_ended_it(self) -> bool:
        """Whether this request, and no other, may have ended a server that answers no more."""
        is_sent = self.was_sent and not self.is_timeout
        return self.was_alone and is_sent and self.status not in _OF_OTHERS

    @property
    def is_refusal(self) -> bool:
        """Whether the server does not support the request; otherwise it failed."""
        return self.status in _REFUSALS


class Transport(Protocol):
    """Exchanges JSON with one server."""

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer's object. Raises `ServerError`. May wait for other requests."""
        ...

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The events of a streamed answer, without [DONE]. Raises `ServerError`."""
        ...

    async def get(self, path: str) -> dict[str, Any]:
        """The object at a path. Raises `ServerError`."""
        ...

    async def get_text(self, path: str) -> str:
        """The text at a path. Raises `ServerError`."""
        ...


class HttpTransport:
    """A `Transport` over a session that the caller owns and closes."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: URL,
        *,
        api_key: str | None = None,
        concurrency: int = 16,
        timeout_s: float = 120.0,
    ) -> None:
        self._session = session
        self._server = server
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._api_key = api_key
        self._slots = asyncio.Semaphore(concurrency)
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """See `Transport`. An overloaded server is asked again, with growing pauses."""
        return self._object(await self._send("POST", path, body), path)

    async def post_stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """See `Transport`."""
        text = (await self._send("POST", path, {**body, "stream": True})).decode("utf-8", "replace")
        # Only newlines end a line: JSON allows U+2028 and other separators within a string.
        lines = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
        return [self._object(line.encode(), path) for line in lines if line != "[DONE]"]

    async def get(self, path: str) -> dict[str, Any]:
        """See `Transport`."""
        return self._object(await self._send("GET", path, None), path)

    async def get_text(self, path: str) -> str:
        """See `Transport`."""
        return (await self._send("GET", path, None)).decode("utf-8", "replace")

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> bytes:
        url = self._server.join(URL(path))
        for tries_left in reversed(range(_NUM_TRIES)):
            try:
                async with (
                    self._slots,
                    self._session.request(
                        method,
                        url,
                        json=body,
                        headers=self._headers,
                        timeout=self._timeout,
                        allow_redirects=False,
                    ) as response,
                ):
                    data = await response.read()
                    status = response.status
            except TimeoutError:
                failure = ServerError(f"{url} did not answer within {self._timeout.total:g} s")
                failure.is_timeout = True
                raise failure from None
            except (aiohttp.ClientError, OSError) as error:
                failure = ServerError(f"cannot reach {url}: {error}")
                failure.was_sent = not isinstance(error, aiohttp.ClientConnectorError)
                raise failure from error
            if status == 200:
                return data
            if status not in _RETRIED or not tries_left:
                text = self._shown(data.decode("utf-8", "replace"))
                raise ServerError(f"{url} answered with status {status}: {text}", status)
            await asyncio.sleep(_RETRY_S * (_NUM_TRIES - tries_left))
        raise AssertionError("unreachable")

    def _object(self, data: bytes, path: str) -> dict[str, Any]:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ServerError(f"{path} answered with something that is not a JSON object")
        if "error" in document and "choices" not in document:
            error = self._shown(str(document["error"]))
            raise ServerError(f"{path} answered with an error: {error}")
        return document

    def _shown(self, text: str) -> str:
        """The beginning of an error, for messages; a server may repeat the key in it."""
        if self._api_key:
            text = text.replace(self._api_key, "***")
        return text[:_MAX_ERROR_CHARS]
