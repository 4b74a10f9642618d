"""One exchange with a replica: the pieces in which a stream reaches the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from paceline.runtime.gateway.http.byte_budget import ByteBudget
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.http.sse import EventRelay
from paceline.runtime.gateway.proxy.attempt import Attempt, RequestContext
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.routes import COMPLETIONS, RESPONSES
from paceline.runtime.gateway.requests.validation import check_request
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings, GatewaySettings
from unit.gateway.admission.plans import plan

pytestmark = pytest.mark.asyncio

TOKEN = b'data: {"choices":[{"text":"a"}]}\n\n'
LAST = b'data: {"choices":[{"text":"","finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


class Answer:
    """An engine's stream, read by read."""

    status = 200
    is_encoded = False

    def __init__(self, *reads: bytes) -> None:
        self._reads: Iterator[bytes] = iter(reads)

    async def read_some(self) -> bytes:
        return next(self._reads, b"")

    async def read_contents(self) -> bytes:
        return await self.read_some()

    def close(self) -> None:
        pass


class Engine:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def post(self, *_: object) -> Answer:
        return self._answer


class Observer:
    def first_bytes(self) -> None:
        pass

    def stream_completed(self, num_output_tokens: int | None) -> None:
        pass


async def bodies_of(*reads: bytes) -> list[tuple[bytes, bool]]:
    """The bodies sent to the client after the head: bytes, and whether more follow."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    settings, failures = GatewaySettings(), FailureSettings()
    body = msgspec.json.encode({"model": "m", "prompt": "x", "stream": True})
    replica = Replica(name="a", address="http://a", model="m", state="ready")
    leases = LeaseTable(Breakers(failures), ProgressWatch())
    async with leases.lease(replica) as lease:
        context = RequestContext(
            check_request(COMPLETIONS, body, settings),
            plan(),
            ClientResponse(send, "id"),
            cast(Upstreams, Engine(Answer(*reads))),
            Observer(),
            settings,
            ByteBudget(2**30).request(None),
        )
        attempt = Attempt(context, lease)
        assert await attempt.run("/v1/completions", body, EventRelay()) == COMPLETED
    assert sent[0]["type"] == "http.response.start"
    return [(message["body"], message["more_body"]) for message in sent[1:]]


async def test_the_last_events_leave_together_with_the_end_of_the_answer() -> None:
    assert await bodies_of(TOKEN, LAST + DONE) == [(TOKEN, True), (LAST + DONE, False)]
    assert await bodies_of(TOKEN + LAST, DONE) == [(TOKEN + LAST, True), (DONE, False)]


async def test_an_answer_that_arrives_at_once_is_one_piece() -> None:
    assert await bodies_of(TOKEN + LAST + DONE) == [(TOKEN + LAST + DONE, False)]


async def test_events_before_the_first_token_are_no_answer() -> None:
    """No time to first token, no success of a trial request, no progress of the replica."""
    created = b"event: response.created\ndata: {}\n\n"
    delta = b"event: response.output_text.delta\ndata: {}\n\n"
    completed = b"event: response.completed\ndata: {}\n\n"
    seen: list[tuple[int, bool, int]] = []

    class Watched(Answer):
        async def read_some(self) -> bytes:
            watched = leases.progress().replicas["a"]
            seen.append((observer.num_first, lease.has_answered, watched.num_first))
            return await super().read_some()

    class Counting(Observer):
        num_first = 0

        def first_bytes(self) -> None:
            self.num_first += 1

    async def send(message: Any) -> None:
        pass

    settings, failures, observer = GatewaySettings(), FailureSettings(), Counting()
    body = msgspec.json.encode({"model": "m", "input": "x", "stream": True})
    replica = Replica(name="a", address="http://a", model="m", state="ready")
    leases = LeaseTable(Breakers(failures), ProgressWatch())
    async with leases.lease(replica) as lease:
        context = RequestContext(
            check_request(RESPONSES, body, settings),
            plan(),
            ClientResponse(send, "id"),
            cast(Upstreams, Engine(Watched(created, delta, completed))),
            observer,
            settings,
            ByteBudget(2**30).request(None),
        )
        relay = EventRelay(RESPONSES.event_names)
        assert await Attempt(context, lease).run("/v1/responses", body, relay) == COMPLETED
    assert seen == [(0, False, 1), (0, False, 1), (1, True, 0)]
