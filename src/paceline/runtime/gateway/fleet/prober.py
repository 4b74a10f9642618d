"""HTTP client for health, models, load and warm-up of one replica.

It is independent of client requests: it opens its own connections and changes no count of requests
in flight. It turns aiohttp's exceptions into `ReplicaProbeFailed`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import aiohttp

from paceline.foundation.command_line.printable import printable
from paceline.runtime.gateway.fleet.dialects import (
    CHAT_PATH,
    COMPLETIONS_PATH,
    MODELS_PATH,
    Dialect,
)
from paceline.runtime.gateway.fleet.error_bodies import error_message_of
from paceline.runtime.gateway.fleet.identity import (
    ListedModel,
    Unreadable,
    parse_models,
    parse_version,
    read_revision,
)
from paceline.runtime.gateway.fleet.load import parse_counters, parse_load
from paceline.runtime.gateway.fleet.metrics_page import MetricsPage
from paceline.runtime.gateway.fleet.speculation import read_speculation
from paceline.runtime.gateway.fleet.status import LoadReading
from paceline.runtime.gateway.hops import HOPS_HEADER, is_own_refusal
from paceline.runtime.gateway.own_limits import is_own_limit

logger = logging.getLogger(__name__)

_MAX_METRICS_BYTES = 8 * 1024 * 1024
"""vLLM's metrics page has some hundred kilobytes per engine."""
_MAX_MODELS_BYTES = 2 * 1024 * 1024
"""The longest lists have some thousand models, at some hundred bytes each."""
_MAX_START_BYTES = 64 * 1024
"""Of any other answer only the start is read: its status counts, or it is short."""
_LONG_PAGE_BYTES = 256 * 1024
"""A longer metrics page is parsed in a thread, so that the streams of this process continue."""
_LONG_LIST_BYTES = 16 * 1024
"""The same for a list of models, of which each byte costs more: some milliseconds at most."""
_MAX_REASON_CHARS = 300
_VERSION_PATH = "/version"
_ROUTE_MISSING_STATUSES = (400, 404, 405, 501)
"""Statuses of a route that the server or its model does not have; older vLLM releases used 400."""
_WARM_UP_TEXT = "Hello"
_WARM_UP_TOKENS = 4
"""Enough for a prefill and a few decode steps; cheap on a replica that already serves."""


class ReplicaProbeFailed(Exception):
    """The replica did not answer as expected; the message says what happened."""


class ReplicaProbeNotSent(ReplicaProbeFailed):
    """The gateway itself could not open a connection, whatever the replica's state."""


class ReplicaLeadsBack(ReplicaProbeFailed):
    """The address leads back to this gateway. Only a change of the configuration ends that."""


class Prober:
    """HTTP client for one replica. An async context manager; each call has its own time limit."""

    def __init__(
        self,
        address: str,
        dialect: Dialect,
        key: str | None = None,
        *,
        quotes_errors: bool = True,
        gateway_id: str = "",
    ) -> None:
        """`address` is a URL without a path, or the path of a Unix socket.

        With `quotes_errors` the message of `ReplicaProbeFailed` may quote what the server sent, up
        to 300 characters. With the `gateway_id` of this gateway, an address that leads back to it
        is recognised.
        """
        self._quotes_errors = quotes_errors
        self._is_unix = address.startswith("/")
        self._address = address
        self._base = "http://engine" if self._is_unix else address
        self._dialect = dialect
        self._gateway_id = gateway_id
        self._headers = {"accept-encoding": "identity"}
        if gateway_id:
            self._headers[HOPS_HEADER] = gateway_id
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    async def __aenter__(self) -> Prober:
        # One connection per call: servers close idle ones, and a poll on a connection that is just
        # closing would count as a failure of the replica.
        connector: aiohttp.BaseConnector = (
            aiohttp.UnixConnector(self._address, force_close=True)
            if self._is_unix
            else aiohttp.TCPConnector(force_close=True)
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            auto_decompress=False,  # a small page could become one of any length
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def check_health(self, timeout_s: float) -> None:
        """Return if the replica is healthy. May raise `ReplicaProbeFailed`."""
        path = self._dialect.health_path
        status, body = await self._send("GET", path, timeout_s)
        if status in (404, 405):
            raise ReplicaProbeFailed(
                f"{self._describe(path, status, body)}; that is the health path of the dialect "
                f"{self._dialect.name}: set `dialect` if the server is of another kind"
            )
        if status != 200:
            raise ReplicaProbeFailed(self._describe(path, status, body))

    async def fetch_models(self, timeout_s: float) -> Sequence[ListedModel]:
        """The served models, in the replica's order; empty when it has no list of models.

        May raise `ReplicaProbeFailed`.
        """
        status, body = await self._send("GET", MODELS_PATH, timeout_s, _MAX_MODELS_BYTES)
        if status in (404, 405):
            return ()
        if status != 200:
            raise ReplicaProbeFailed(self._describe(MODELS_PATH, status, body))
        try:
            if len(body) > _LONG_LIST_BYTES:
                return await asyncio.to_thread(parse_models, body)
            return parse_models(body)
        except Unreadable as error:
            raise ReplicaProbeFailed(f"{MODELS_PATH} returned {error}") from None

    async def fetch_version(self, timeout_s: float) -> str | None:
        """The version of vLLM; None for another server, and where it is not reported."""
        if self._dialect.name != "vllm":
            return None
        try:
            status, body = await self._send("GET", _VERSION_PATH, timeout_s)
        except ReplicaProbeFailed:
            return None  # no request depends on it
        return parse_version(body) if status == 200 else None

    async def warm_up(self, model: str, timeout_s: float) -> None:
        """Send one small request to the first route that the replica has.

        May raise `ReplicaProbeFailed`.
        """
        first_failure = ""
        for path, request in _WARM_UP_REQUESTS:
            content = {"model": model, **request}
            status, body = await self._send("POST", path, timeout_s, content=content)
            if status == 200:
                return
            first_failure = first_failure or self._describe(path, status, body)
            if status not in _ROUTE_MISSING_STATUSES:
                break
        raise ReplicaProbeFailed(f"warm-up failed: {first_failure}")

    async def fetch_load(self, timeout_s: float) -> LoadReading:
        """A reading of the metrics. May raise `ReplicaProbeFailed`, also when there are none."""
        path = self._dialect.metrics_path
        if path is None:
            raise ReplicaProbeFailed(
                f"servers of the dialect {self._dialect.name} have no load metrics"
            )
        status, body = await self._send("GET", path, timeout_s, _MAX_METRICS_BYTES)
        if status != 200:
            raise ReplicaProbeFailed(self._describe(path, status, body))
        try:
            if len(body) > _LONG_PAGE_BYTES:
                return await asyncio.to_thread(read_metrics, body, self._dialect)
            return read_metrics(body, self._dialect)
        except Exception:
            # A bug in the gateway must not look like a fault of the replica.
            logger.exception("the metrics of %s could not be read", self._address)
            raise ReplicaProbeFailed(
                f"{path} could not be read, a fault of the gateway; see its log"
            ) from None

    async def _send(
        self,
        method: str,
        path: str,
        timeout_s: float,
        max_page_bytes: int | None = None,
        content: Mapping[str, Any] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body: with `max_page_bytes` and a 200 the whole of it, else the start.

        Raises `ReplicaProbeFailed`.
        """
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method,
                    self._base + path,
                    json=content,
                    allow_redirects=False,  # the key must not reach another server
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                if is_own_refusal(response.status, response.headers, self._gateway_id):
                    raise ReplicaLeadsBack(
                        f"{path} answered {response.status}: the address leads back to this "
                        "gateway; remove the entry"
                    )
                if max_page_bytes is None or response.status != 200:
                    return response.status, await _read_start(response)
                return response.status, await _read_page(response, max_page_bytes)
        except TimeoutError:
            raise ReplicaProbeFailed(f"{path} did not answer within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = ReplicaProbeNotSent if is_own_limit(error) else ReplicaProbeFailed
            reason = _short(error) if self._quotes_errors else type(error).__name__
            raise failure(f"{path} cannot be reached: {reason}") from None

    def _describe(self, path: str, status: int, body: bytes) -> str:
        message = ""
        if self._quotes_errors:
            message, _ = error_message_of(self._dialect.name, status, body)
        return f"{path} answered {status}" + (f": {_short(message)}" if message else "")


def read_metrics(body: bytes, dialect: Dialect) -> LoadReading:
    """A reading of this page, made now."""
    page = MetricsPage(body.decode("utf-8", errors="replace"))
    return LoadReading(
        parse_load(page, dialect.load),
        time.monotonic(),
        "",
        read_speculation(page),
        parse_counters(page, dialect.counters),
        revision=read_revision(page),
    )


_WARM_UP_REQUESTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (
        COMPLETIONS_PATH,
        {"prompt": _WARM_UP_TEXT, "max_tokens": _WARM_UP_TOKENS, "temperature": 0},
    ),
    (
        CHAT_PATH,
        {
            "messages": [{"role": "user", "content": _WARM_UP_TEXT}],
            "max_tokens": _WARM_UP_TOKENS,
        },
    ),
    ("/v1/embeddings", {"input": _WARM_UP_TEXT}),
)


async def update_load(prober: Prober, previous: LoadReading, timeout_s: float) -> LoadReading:
    """A new reading, or the previous load with the reason why there is none. Does not raise."""
    try:
        return previous.followed_by(await prober.fetch_load(timeout_s))
    except ReplicaProbeFailed as failure:
        return previous.failed(str(failure))


async def _read_page(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The whole body. Raises `ValueError` when it is longer, or compressed."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise ValueError(f"it answered with Content-Encoding {encoding[:50]}, which was not asked")
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > max_bytes:
            raise ValueError(f"the response is longer than {max_bytes} bytes")
    return bytes(body)


async def _read_start(response: aiohttp.ClientResponse) -> bytes:
    """The first bytes of the body."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) >= _MAX_START_BYTES:
            break
    return bytes(body[:_MAX_START_BYTES])


def _short(error: object) -> str:
    """What another server may have written, on one line of bounded length."""
    return printable((str(error) or type(error).__name__)[:_MAX_REASON_CHARS])
