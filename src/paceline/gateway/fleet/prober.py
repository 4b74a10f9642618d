"""HTTP client for health, models, load and warm-up of one replica.

It is independent of client requests: it opens its own connections and changes no count of requests
in flight. It turns aiohttp's exceptions into `ReplicaProbeFailed`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp
import msgspec

from paceline.gateway.fleet.dialects import CHAT_PATH, COMPLETIONS_PATH, MODELS_PATH, Dialect
from paceline.gateway.fleet.error_bodies import error_message_of
from paceline.gateway.fleet.load import parse_counters, parse_load
from paceline.gateway.fleet.speculation import read_speculation
from paceline.gateway.fleet.status import LoadReading
from paceline.gateway.own_limits import is_own_limit

_MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Bound for one response. vLLM's metrics page has some hundred kilobytes per engine."""
_MAX_REASON_CHARS = 300
_VERSION_PATH = "/version"
_MAX_VERSION_CHARS = 100
_ROUTE_MISSING_STATUSES = (400, 404, 405, 501)
"""Statuses of a route that the server or its model does not have; older vLLM releases used 400."""
_WARM_UP_TEXT = "Hello"
_WARM_UP_TOKENS = 4
"""Enough for a prefill and a few decode steps; cheap on a replica that already serves."""


class ReplicaProbeFailed(Exception):
    """The replica did not answer as expected; the message says what happened."""


class ReplicaProbeNotSent(ReplicaProbeFailed):
    """The gateway itself could not open a connection, whatever the replica's state."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One entry of /v1/models."""

    id: str
    max_model_len: int | None = None


class Prober:
    """HTTP client for one replica. An async context manager; each call has its own time limit."""

    def __init__(
        self, address: str, dialect: Dialect, key: str | None = None, *, quotes_errors: bool = True
    ) -> None:
        """`address` is a URL without a path, or the path of a Unix socket.

        With `quotes_errors` the message of `ReplicaProbeFailed` may quote what the server sent, up
        to 300 characters.
        """
        self._quotes_errors = quotes_errors
        self._is_unix = address.startswith("/")
        self._address = address
        self._base = "http://engine" if self._is_unix else address
        self._dialect = dialect
        self._headers = {"accept-encoding": "identity"}
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
            connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
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
        status, body = await self._send("GET", MODELS_PATH, timeout_s)
        if status in (404, 405):
            return ()
        if status != 200:
            raise ReplicaProbeFailed(self._describe(MODELS_PATH, status, body))
        return parse_models(body)

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
            status, body = await self._send("POST", path, timeout_s, {"model": model, **request})
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
        status, body = await self._send("GET", path, timeout_s)
        if status != 200:
            raise ReplicaProbeFailed(self._describe(path, status, body))
        page = body.decode("utf-8", errors="replace")
        load = parse_load(page, self._dialect.load)
        return LoadReading(
            load,
            time.monotonic(),
            "",
            read_speculation(page),
            parse_counters(page, self._dialect.counters),
            revision=read_revision(page),
        )

    async def _send(
        self, method: str, path: str, timeout_s: float, request: Mapping[str, Any] | None = None
    ) -> tuple[int, bytes]:
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method,
                    self._base + path,
                    json=request,
                    allow_redirects=False,  # the key must not reach another server
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                return response.status, await _read_bounded(response)
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
        return f"{path} answered {status}" + (f": {message[:_MAX_REASON_CHARS]}" if message else "")


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


def parse_version(body: bytes) -> str | None:
    """The version in a /version response; None without one.

    >>> parse_version(b'{"version": "0.32.0"}')
    '0.32.0'
    """
    try:
        page = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    version = page.get("version") if isinstance(page, dict) else None
    return version[:_MAX_VERSION_CHARS] if isinstance(version, str) and version else None


def parse_models(body: bytes) -> Sequence[ListedModel]:
    """The models in a /v1/models response. May raise `ReplicaProbeFailed`."""
    try:
        page = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ReplicaProbeFailed(f"{MODELS_PATH} returned a body that is not JSON") from None
    data = page.get("data") if isinstance(page, dict) else None
    if not isinstance(data, list):
        raise ReplicaProbeFailed(f"{MODELS_PATH} returned JSON that is not a list of models")
    models = []
    for item in data:
        if isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"]:
            length = item.get("max_model_len", _context_of_llamacpp(item))
            is_length = type(length) is int and length > 0
            models.append(ListedModel(item["id"], length if is_length else None))
    return models


def _context_of_llamacpp(item: Mapping[str, Any]) -> object:
    """The context of one slot of llama.cpp's server, which lists it under `meta`."""
    meta = item.get("meta")
    return meta.get("n_ctx") if isinstance(meta, dict) else None


_REVISION = re.compile(
    r'^paceline_engine_revision_info\{(?:[^}\n]*,)?revision="([^"\n]{1,100})"[^}\n]*\} 1(?:\.0)?$',
    re.MULTILINE,
)


def read_revision(page: str) -> str | None:
    """The revision of the model that a metrics page names; None when it names none, or several.

    A vLLM server with Paceline installed reports a fingerprint of model, weights, tokenizer and
    chat template (`paceline.engine.front_end`). Stock vLLM reports none.

    >>> read_revision('paceline_engine_revision_info{revision="6f1e"} 1.0\\n')
    '6f1e'
    """
    found = set(_REVISION.findall(page))
    return found.pop() if len(found) == 1 else None


async def update_load(prober: Prober, previous: LoadReading, timeout_s: float) -> LoadReading:
    """A new reading, or the previous load with the reason why there is none. Does not raise."""
    try:
        return previous.followed_by(await prober.fetch_load(timeout_s))
    except ReplicaProbeFailed as failure:
        return previous.failed(str(failure))


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    num_bytes = 0
    async for part in response.content.iter_any():
        num_bytes += len(part)
        if num_bytes > _MAX_PAGE_BYTES:
            raise ValueError(f"the response is longer than {_MAX_PAGE_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_MAX_REASON_CHARS]
