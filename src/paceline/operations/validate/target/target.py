"""The deployment over HTTP: requests, streams, metrics and the admin port."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from paceline.foundation.load.sse import SseDecoder
from paceline.operations.validate.target.counters import Counters, read_counters
from paceline.operations.validate.target.exchange import Reply, Stream
from paceline.operations.validate.values import Missing, ValidationError, Violation

T = TypeVar("T")

_POLL_S = 0.05
SETTLE_S = 20.0
"""The gateway reads the gauges of its replicas every 5 s by default."""
_NOT_SERVED = (404, 405, 501)
COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the deployment listens, and its keys."""

    url: URL
    admin_url: URL | None = None
    """Of Paceline's admin port."""
    api_key: str | None = None
    admin_key: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """How the server describes itself."""

    kind: str
    """paceline, vllm or other."""
    model: str
    max_model_len: int | None
    version: str | None


class Target:
    """Requests to one deployment, over a session that the caller owns and closes.

    A request that cannot be sent or answered raises `Violation`.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Addresses,
        *,
        timeout_s: float = 60.0,
        settle_s: float = SETTLE_S,
    ) -> None:
        """`settle_s`: how long counters and gauges may take to show what has happened."""
        self.addresses = addresses
        self.settle_s = settle_s
        self.session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:
        """The result of `identify`, which must have been awaited."""
        assert self._identity is not None
        return self._identity

    async def identify(self, model: str | None) -> Identity:
        """Ask the server who it is; `model` is the one to request.

        Raises ValidationError if it lists no model.
        """
        try:
            reply = await self.request("GET", "/v1/models")
            cards = reply.expect_ok().document()["data"]
            card = next(card for card in cards if model in (None, card["id"]))
            owner, name = card.get("owned_by"), str(card["id"])
        except Violation as violation:
            raise ValidationError(f"no model to validate: {violation}") from violation
        except (KeyError, TypeError, AttributeError, StopIteration) as error:
            wanted = "" if model is None else f" {model!r} (--model)"
            raise ValidationError(
                f"{self.addresses.url} lists no model{wanted}: {reply.text}"
            ) from error
        longest = card.get("max_model_len")
        self._identity = Identity(
            kind=owner if owner in ("paceline", "vllm") else "other",
            model=name,
            max_model_len=longest if type(longest) is int else None,
            version=await self._version(),
        )
        return self._identity

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        base: URL | None = None,
        key: str | None = None,
        sends_key: bool = True,
    ) -> Reply:
        """The reply to one request. `key` replaces the API key, `sends_key=False` omits it."""
        url, headers = self._prepare(path, base, key, sends_key)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            async with self.session.request(
                method, url, data=data, headers=headers, timeout=self._timeout,
                allow_redirects=False,
            ) as response:  # fmt: skip
                content = await response.read()
                names = {name.lower(): value for name, value in response.headers.items()}
                return Reply(f"{method} {path}", response.status, names, content)
        except TimeoutError:
            raise Violation(
                f"{method} {path} was not answered within {self._timeout.total:g} s"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Violation(f"{method} {path} failed: {error or type(error).__name__}") from error

    async def post(self, path: str, **fields: Any) -> Reply:
        """The whole answer to a request for the validated model."""
        return await self.request("POST", path, {"model": self.identity.model, **fields})

    async def complete(self, **fields: Any) -> Reply:
        """A whole completion. Raises `Missing` if the server does not serve completions."""
        reply = await self.post(COMPLETIONS, **fields)
        if reply.status in _NOT_SERVED:
            raise Missing(f"the server does not serve {COMPLETIONS} (status {reply.status})")
        return reply

    async def chat(self, **fields: Any) -> Reply:
        """A whole chat answer. Raises `Missing` if the server has no chats or no template."""
        reply = await self.post(CHAT, **fields)
        if reply.status in _NOT_SERVED or (reply.status == 400 and b"template" in reply.body):
            raise Missing(f"the model does not serve chats: status {reply.status}: {reply.text}")
        return reply

    async def stream(
        self,
        path: str,
        *,
        max_events: int | None = None,
        release: Callable[[], Awaitable[object]] | None = None,
        **fields: Any,
    ) -> Stream:
        """A streamed answer; after `max_events` `release` is awaited and the connection closed."""
        url, headers = self._prepare(path, None, None, True)
        body = json.dumps({"model": self.identity.model, "stream": True, **fields}).encode()
        events: list[bytes] = []
        status, content_type, failure = 0, "", None
        try:
            async with self.session.post(
                url, data=body, headers=headers, timeout=self._timeout, allow_redirects=False
            ) as response:
                status, content_type = response.status, response.content_type
                if status != 200:
                    events.append(await response.read())
                    return Stream(f"stream of {path}", status, content_type, tuple(events))
                decoder = SseDecoder()
                async for data in response.content.iter_any():
                    events += decoder.feed(data)
                    if max_events is not None and len(events) >= max_events:
                        if release is not None:
                            await release()
                        response.close()
                        break
        except TimeoutError:
            failure = f"not complete within {self._timeout.total:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = str(error) or type(error).__name__
        if not status:
            raise Violation(f"stream of {path} failed: {failure}")
        return Stream(f"stream of {path}", status, content_type, tuple(events), failure)

    async def metrics_page(self) -> Reply:
        """The metrics page. Raises `Missing` if there is none."""
        base = self.addresses.admin_url
        if base is None and self.identity.kind == "paceline":
            raise Missing("Paceline shows its metrics on the admin port; give --admin-url")
        key = None if base is None else self.addresses.admin_key
        reply = await self.request("GET", "/metrics", base=base, key=key, sends_key=base is None)
        if reply.status in _NOT_SERVED:
            raise Missing(f"the server shows no metrics (status {reply.status} at /metrics)")
        return reply

    async def counters(self) -> Counters:
        """The counters now. Raises `Missing` if the page is of no known dialect."""
        page = (await self.metrics_page()).expect_ok()
        found = read_counters(page.body.decode("utf-8", "replace"))
        if found is None:
            raise Missing("the metrics page has neither vLLM's nor Paceline's families")
        return found

    async def settle(self, is_settled: Callable[[Counters], bool]) -> Counters:
        """The first counters that are settled, or those after `settle_s`."""
        return await self.wait_for(self.counters, is_settled)

    async def wait_for(
        self, read: Callable[[], Awaitable[T]], is_reached: Callable[[T], bool]
    ) -> T:
        """The first value that is reached, or the one after `settle_s`."""
        give_up_s = time.monotonic() + self.settle_s
        while True:
            value = await read()
            if is_reached(value) or time.monotonic() >= give_up_s:
                return value
            await asyncio.sleep(_POLL_S)

    def _prepare(
        self, path: str, base: URL | None, key: str | None, sends_key: bool
    ) -> tuple[URL, dict[str, str]]:
        headers = {"Content-Type": "application/json"}
        if key is None and sends_key:
            key = self.addresses.api_key
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return (base or self.addresses.url).join(URL(path)), headers

    async def _version(self) -> str | None:
        try:
            reply = await self.request("GET", "/version")
            version = reply.document().get("version") if reply.status == 200 else None
        except Violation:
            return None
        return version if isinstance(version, str) else None
