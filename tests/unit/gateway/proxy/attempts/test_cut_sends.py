"""Attempts that end while a part of the answer waits for a client that reads slowly.

The server's `send` waits until the client has read enough. An attempt that is cut meanwhile has not
sent that part, so another replica must generate it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from paceline.runtime.gateway.http.byte_budget import ByteBudget
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.answer import Answer
from paceline.runtime.gateway.proxy.attempt import RequestContext
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.routes import COMPLETIONS
from paceline.runtime.gateway.requests.validation import check_request
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings, GatewaySettings
from unit.gateway.admission.plans import plan
from unit.gateway.continuation.streams import DONE, chunks_in, completion_chunk, text_in

pytestmark = pytest.mark.asyncio

SETTINGS, FAILURES = GatewaySettings(), FailureSettings()
PROMPT_IDS, ANSWER = [120], b"ABCDE"
REPLICAS = [
    Replica(name, f"http://{name}", "m", "ready", max_model_len=100) for name in ("one", "two")
]


class SlowClient:
    """Reads the messages up to a number, and the others after `read_on`."""

    def __init__(self, num_read: int) -> None:
        self._num_read = num_read
        self._reads_on = asyncio.Event()
        self.is_waited_for = asyncio.Event()
        self.messages: list[dict[str, Any]] = []

    def read_on(self) -> None:
        self._reads_on.set()

    async def send(self, message: Any) -> None:
        """Like uvicorn's: it waits first and then writes."""
        if len(self.messages) >= self._num_read and not self._reads_on.is_set():
            self.is_waited_for.set()
            await self._reads_on.wait()
        self.messages.append(message)

    @property
    def events(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


class Stream:
    """An engine's stream: its reads, then silence."""

    status, is_encoded = 200, False

    def __init__(self, reads: list[bytes]) -> None:
        self._reads = reads

    async def read_some(self) -> bytes:
        if not self._reads:
            await asyncio.Event().wait()
        return self._reads.pop(0)

    async def read_contents(self) -> bytes:
        return await self.read_some()

    def close(self) -> None:
        pass


class Whole:
    """An engine's answer to /detokenize."""

    status, is_encoded = 200, False

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read_all(self, max_bytes: int, reserve: Callable[[int], None]) -> bytes:
        return self._body

    def close(self) -> None:
        pass


class Engines:
    """Replicas that answer every prompt with `ANSWER`; their token ids are bytes."""

    def __init__(self, events_per_read: int) -> None:
        self._events_per_read = events_per_read

    async def post(
        self, replica: Replica, path: str, body: bytes, request_id: str, hops: str
    ) -> Any:
        parsed = msgspec.json.decode(body)
        if path == "/detokenize":
            return Whole(msgspec.json.encode({"prompt": bytes(parsed["tokens"]).decode()}))
        begun = len(parsed["prompt"]) - 1 if isinstance(parsed["prompt"], list) else 0
        events = [
            completion_chunk(
                chr(token),
                [token],
                "stop" if index == len(ANSWER) - 1 else None,
                prompt_ids=PROMPT_IDS if index == begun else None,
            )
            for index, token in enumerate(ANSWER)
        ][begun:]
        events[-1] += DONE
        step = self._events_per_read
        return Stream([b"".join(events[at : at + step]) for at in range(0, len(events), step)])


def begun(
    client: SlowClient, events_per_read: int, fields: dict[str, Any]
) -> tuple[Answer, LeaseTable]:
    """The answer to a stream with these fields, before its first attempt."""
    body = {"model": "m", "prompt": "x", "stream": True, "temperature": 0, **fields}
    request = check_request(COMPLETIONS, msgspec.json.encode(body), SETTINGS)
    reply = ClientResponse(client.send, "id")
    engines = cast(Upstreams, Engines(events_per_read))
    budget = ByteBudget(2**30).request(None)
    answer = Answer(RequestContext(request, plan(), reply, engines, Observer(), SETTINGS, budget))
    return answer, LeaseTable(Breakers(FAILURES), ProgressWatch())


async def answer_to(client: SlowClient, *, events_per_read: int = 1) -> bytes:
    """The stream that the client reads; its first attempt is cut while a send waits for it."""
    answer, leases = begun(client, events_per_read, {})
    async with leases.lease(REPLICAS[0]) as lease:
        attempt = asyncio.create_task(answer.attempt(lease))
        await asyncio.wait_for(client.is_waited_for.wait(), 60)
        lease.cut(Outcome.TIMED_OUT)
        assert (await attempt).outcome is Outcome.TIMED_OUT
    client.read_on()
    if not await answer.close_if_complete():
        async with leases.lease(REPLICAS[1]) as lease:
            assert await answer.attempt(lease) == COMPLETED
    return client.events


class Observer:
    def first_bytes(self) -> None:
        pass

    def stream_completed(self, num_output_tokens: int | None) -> None:
        pass


def finish_reasons(events: bytes) -> list[str]:
    choices = [choice for chunk in chunks_in(events) for choice in chunk["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]


@pytest.mark.parametrize(
    ("events_per_read", "num_read"),
    [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 0),
        (2, 1),
        (2, 2),
    ],
)
async def test_no_token_is_lost_with_a_send_that_is_cut(
    events_per_read: int, num_read: int
) -> None:
    """The sends are the head, the tokens, and the last ones together with the end; see below for
    that one."""
    client = SlowClient(num_read)
    events = await answer_to(client, events_per_read=events_per_read)
    assert text_in(events) == ANSWER.decode()
    assert finish_reasons(events) == ["stop"]
    assert events.endswith(DONE)
    assert events.count(DONE) == 1
    is_head = [message["type"] == "http.response.start" for message in client.messages]
    assert is_head.index(True) == 0
    assert is_head.count(True) == 1


@pytest.mark.parametrize("fields", [{}, {"logprobs": 1}], ids=["continuable", "not-continuable"])
@pytest.mark.parametrize(("events_per_read", "num_read"), [(1, 5), (2, 3), (5, 0), (5, 1)])
async def test_a_stream_that_has_arrived_to_its_end_is_not_cut(
    fields: dict[str, Any], events_per_read: int, num_read: int
) -> None:
    """A hung replica takes nothing away: the gateway has all that its slow client lacks."""
    client = SlowClient(num_read)
    answer, leases = begun(client, events_per_read, fields)
    async with leases.lease(REPLICAS[0]) as lease:
        attempt = asyncio.create_task(answer.attempt(lease))
        await asyncio.wait_for(client.is_waited_for.wait(), 60)
        assert leases.progress().replicas[REPLICAS[0].name].num_listening == 0
        leases.cut_hung(REPLICAS[0].name)
        client.read_on()
        assert await attempt == COMPLETED
    assert text_in(client.events) == ANSWER.decode()
    assert client.events.endswith(DONE)


async def test_an_answer_without_tokens_left_is_not_cut_while_its_end_is_sent() -> None:
    """It needs no engine any more: the client has its last token and lacks the closing events."""
    client = SlowClient(num_read=4)
    answer, leases = begun(client, 1, {"max_tokens": 3})
    async with leases.lease(REPLICAS[0]) as lease:
        attempt = asyncio.create_task(answer.attempt(lease))
        await asyncio.wait_for(client.is_waited_for.wait(), 60)
        lease.cut(Outcome.TIMED_OUT)
        assert (await attempt).outcome is Outcome.TIMED_OUT
    client.is_waited_for.clear()
    async with leases.lease(REPLICAS[1]) as lease:
        attempt = asyncio.create_task(answer.attempt(lease))
        await asyncio.wait_for(client.is_waited_for.wait(), 60)
        leases.cut_hung(REPLICAS[1].name)
        assert not lease.is_cut
        client.read_on()
        assert await attempt == COMPLETED
    assert text_in(client.events) == "ABC"
    assert finish_reasons(client.events) == ["length"]
