"""`Exchange`: one request, engines whose answers a test sets, and a client that reads at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import msgspec

from paceline.runtime.gateway.http.byte_budget import ByteBudget
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.proxy.answer import Answer
from paceline.runtime.gateway.proxy.attempt import RequestContext
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.lease import Lease, LeaseTable
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.routes import COMPLETIONS
from paceline.runtime.gateway.requests.validation import check_request
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings, GatewaySettings
from unit.gateway.admission.plans import plan
from unit.gateway.admission.simulated_loop import run_simulated

SETTINGS = GatewaySettings(
    first_byte_timeout_s=20.0, stall_timeout_s=5.0, response_timeout_s=30.0, retry_after_s=7
)
ONE, TWO = (Replica(name, f"http://{name}", "m", "ready", max_model_len=100) for name in "ab")


class Response:
    """An engine's answer: bytes, and seconds of silence before the next ones. `fault` ends it."""

    def __init__(
        self,
        *reads: bytes | float,
        status: int = 200,
        is_encoded: bool = False,
        fault: Exception | None = None,
    ) -> None:
        self.status, self.is_encoded = status, is_encoded
        self._reads: Iterator[bytes | float] = iter(reads)
        self._fault = fault
        self.is_closed = False
        self.max_bytes: int | None = None

    async def read_some(self) -> bytes:
        for read in self._reads:
            if isinstance(read, bytes):
                return read
            await asyncio.sleep(read)  # sleep: in simulated time, in every test of these engines
        if self._fault is not None:
            raise self._fault
        return b""

    async def read_contents(self) -> bytes:
        return await self.read_some()

    async def read_all(
        self, max_bytes: int, reserve: Callable[[int], None], start: bytes = b""
    ) -> bytes:
        self.max_bytes = max_bytes
        body = start
        while part := await self.read_some():
            reserve(len(part))
            body += part
        return body

    async def read_error(self, max_bytes: int) -> bytes:
        self.max_bytes = max_bytes
        return (await self.read_some())[:max_bytes]

    def close(self) -> None:
        self.is_closed = True


def text_of(ids: list[int]) -> Response:
    return Response(msgspec.json.encode({"prompt": bytes(ids).decode()}))


class Engines:
    """Gives these answers one after another; an exception is raised, None hangs."""

    def __init__(self, *answers: Response | Exception | None) -> None:
        self._answers = iter(answers)
        self.sent: list[tuple[str, str, dict[str, Any], str]] = []

    async def post(
        self, replica: Replica, path: str, body: bytes, request_id: str, hops: str
    ) -> Response:
        self.sent.append((replica.name, path, msgspec.json.decode(body), request_id))
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
            raise AssertionError
        return answer


class Observer:
    def __init__(self) -> None:
        self.num_first = 0
        self.completed: list[int | None] = []

    def first_bytes(self) -> None:
        self.num_first += 1

    def stream_completed(self, num_output_tokens: int | None) -> None:
        self.completed.append(num_output_tokens)


class Exchange:
    """One request, its engines and its client."""

    def __init__(self, *answers: Response | Exception | None, **fields: object) -> None:
        """A stream, unless the fields say otherwise."""
        body = {"model": "m", "prompt": "x", "stream": True, "temperature": 0, **fields}
        request = check_request(COMPLETIONS, msgspec.json.encode(body), SETTINGS)
        self.status: int | None = None
        self.body = b""
        self.is_ended = False
        self.engines, self.observer = Engines(*answers), Observer()
        self.reply = ClientResponse(self._send, "id")
        self.reserved = ByteBudget(2**30).request(None)
        self.leases = LeaseTable(Breakers(FailureSettings()), ProgressWatch())
        upstreams = cast(Upstreams, self.engines)
        self.answer = Answer(
            RequestContext(
                request, plan(), self.reply, upstreams, self.observer, SETTINGS, self.reserved
            )
        )

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.body += message.get("body", b"")
        self.is_ended = message.get("more_body") is False

    async def attempt(
        self,
        replica: Replica = ONE,
        then: Callable[[Lease], object] = lambda lease: None,
        *,
        is_opinion: bool = False,
    ) -> AttemptEnd:
        """One attempt; `then` gets its lease before it begins."""
        async with self.leases.lease(replica) as lease:
            then(lease)
            end = await self.answer.attempt(lease, is_opinion=is_opinion)
            lease.end(end.outcome)
        return end


PLAIN = Replica("a", "http://a", "m", "ready", dialect="openai")
"""Its streams are not tracked, and may end without a finish_reason."""
TOKEN = b'data: {"choices":[{"text":"a"}]}\n\n'
COMMENT = b":\n\n"
DONE = b'data: {"choices":[{"text":"","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
WHOLE = msgspec.json.encode(
    {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}
)


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(1000.0):
            await scenario()

    run_simulated(limited())


async def ended(
    exchange: Exchange, then: Callable[[Lease], object] = lambda lease: None
) -> tuple[AttemptEnd, float]:
    """The end of an attempt and the seconds until then."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    end = await exchange.attempt(PLAIN, then)
    return end, round(loop.time() - began_s, 6)
