"""A stream that another replica is to continue, and what keeps it from doing so."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.gateway.http.errors import Problem, Refusal
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED
from paceline.runtime.gateway.proxy.lease import Lease
from paceline.runtime.gateway.proxy.upstream import Broken, NotSent, TooLarge, Unreachable
from paceline.runtime.gateway.replicas import Replica
from unit.gateway.admission.simulated_loop import run_simulated
from unit.gateway.continuation.streams import DONE, completion_chunk
from unit.gateway.proxy.attempts.scripted_engines import (
    ONE,
    TWO,
    Exchange,
    Response,
    text_of,
)

FIRST = completion_chunk("a", [97], prompt_ids=[120])
LAST = completion_chunk("b", [98], "stop") + DONE
SGLANG = Replica("b", "http://b", "m", "ready", dialect="sglang")


async def test_a_stream_is_tracked_and_its_rest_requested_elsewhere() -> None:
    rest = Response(completion_chunk("b", [98], "stop") + DONE)
    asked = [text_of([120]), text_of([120, 97])]
    exchange = Exchange(Response(FIRST), *asked, rest, max_tokens=5)
    assert exchange.answer.why_not_continued == "it is no stream"
    broken = await exchange.attempt(ONE)
    assert (broken.outcome, broken.detail) == (
        Outcome.BROKEN,
        "the stream ended before it was complete",
    )
    assert exchange.answer.why_not_continued is None
    assert await exchange.attempt(TWO) == COMPLETED
    assert exchange.body.endswith(LAST.replace(b"[98]", b"null"))
    assert exchange.is_ended
    assert exchange.observer.completed == [2]
    paths = [(name, path, request_id) for name, path, _, request_id in exchange.engines.sent]
    assert paths == [
        ("a", "/v1/completions", "id"),
        ("b", "/detokenize", "id"),
        ("b", "/detokenize", "id"),
        ("b", "/v1/completions", "id"),
    ]
    first, *_, last = (body for _, _, body, _ in exchange.engines.sent)
    assert first["return_token_ids"] is True
    assert (last["prompt"], last["max_tokens"]) == ([120, 97], 4)
    assert [response.max_bytes for response in asked] == [16 * 2**20] * 2
    assert exchange.reserved.num_bytes == 0


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (NotSent("x"), Outcome.NOT_SENT),
        (Unreachable("x"), Outcome.UNREACHABLE),
        (Broken("x"), Outcome.BROKEN),
        (Response(b"", status=500), Outcome.BROKEN),
        (Response(b"", status=404), Outcome.NOT_CONTINUED),
        (Response(b'{"prompt":"x"}', fault=TooLarge("x")), Outcome.NOT_CONTINUED),
        (
            Response(b'{"prompt":"x"}', fault=Refusal(Problem(503, "x", "buffers_full"))),
            Outcome.NOT_CONTINUED,
        ),
    ],
)
async def test_a_replica_that_does_not_detokenise(
    fault: Response | Exception, outcome: Outcome
) -> None:
    exchange = Exchange(Response(FIRST), fault)
    await exchange.attempt(ONE)
    num_bytes = exchange.reserved.num_bytes
    end = await exchange.attempt(TWO)
    assert end.outcome is outcome
    assert end.problem is not None
    assert end.problem.status == 503
    assert exchange.reserved.num_bytes == num_bytes, "the answer is gone"
    assert not isinstance(fault, Response) or fault.is_closed


def test_a_replica_that_does_not_answer_in_time_cannot_continue() -> None:
    async def scenario() -> None:
        exchange, loop = Exchange(Response(FIRST), None), asyncio.get_running_loop()
        await exchange.attempt(ONE)
        began_s = loop.time()
        assert (await exchange.attempt(TWO)).outcome is Outcome.TIMED_OUT
        assert loop.time() - began_s == pytest.approx(10.0)

    run_simulated(scenario())


def test_a_replica_that_is_found_hung_before_it_continues_loses_the_stream_at_once() -> None:
    async def scenario() -> None:
        exchange, loop = Exchange(Response(FIRST), None), asyncio.get_running_loop()
        await exchange.attempt(ONE)
        began_s = loop.time()

        def cut_later(lease: Lease) -> None:
            loop.call_later(1.5, lease.cut, Outcome.TIMED_OUT)

        assert (await exchange.attempt(TWO, cut_later)).outcome is Outcome.TIMED_OUT
        assert loop.time() - began_s == pytest.approx(1.5)

    run_simulated(scenario())


async def test_an_answer_without_tokens_left_is_ended_by_the_gateway() -> None:
    exchange = Exchange(Response(FIRST), text_of([120]), text_of([120, 97]), max_tokens=1)
    await exchange.attempt(ONE)
    assert await exchange.attempt(TWO) == COMPLETED
    assert exchange.body.endswith(completion_chunk("", None, "length") + DONE)
    assert exchange.is_ended
    assert len(exchange.engines.sent) == 3


async def test_a_stream_that_lacks_only_its_end_is_complete() -> None:
    exchange = Exchange(Response(FIRST + completion_chunk("b", [98], "stop")))
    assert not await exchange.answer.close_if_complete()
    assert await exchange.attempt(ONE) == COMPLETED
    assert exchange.body.endswith(DONE)
    assert exchange.is_ended


@pytest.mark.parametrize(
    "rest", [(), (30.0,), (b'data: {"error":{"code":500}}\n\n',), (b": x\n\n",)]
)
def test_an_answer_that_is_complete_does_not_depend_on_how_its_stream_ends(
    rest: tuple[bytes | float, ...],
) -> None:
    """It stays open, breaks, or ends with an error: that says nothing about the answer."""

    async def scenario() -> None:
        for fault in (None, Broken("reset")):
            finished = Response(FIRST + completion_chunk("b", [98], "stop"), *rest, fault=fault)
            for fields in ({}, {"logprobs": 1}):
                exchange = Exchange(finished, **fields)
                assert await exchange.attempt(ONE) == COMPLETED
                assert exchange.body.endswith(DONE)
                assert exchange.is_ended
                finished = Response(FIRST + completion_chunk("b", [98], "stop"), *rest)

    run_simulated(scenario())


def test_comments_do_not_keep_a_complete_answer_open() -> None:
    async def scenario() -> None:
        comments = [x for _ in range(1000) for x in (1.0, b": keep-alive\n\n")]
        exchange = Exchange(Response(FIRST + completion_chunk("b", [98], "stop"), *comments))
        began_s = asyncio.get_running_loop().time()
        assert await exchange.attempt(ONE) == COMPLETED
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(5.0)

    run_simulated(scenario())


def test_a_complete_answer_of_a_replica_that_is_cut_is_closed() -> None:
    async def scenario() -> None:
        finished = Response(FIRST + completion_chunk("b", [98], "stop"), 100.0)
        exchange, loop = Exchange(finished), asyncio.get_running_loop()
        end = await exchange.attempt(
            ONE, lambda lease: loop.call_later(1.0, lease.cut, Outcome.TIMED_OUT)
        )
        assert end.outcome is Outcome.TIMED_OUT
        assert await exchange.answer.close_if_complete()
        assert exchange.body.endswith(DONE)

    run_simulated(scenario())


async def test_a_stream_without_its_end_is_not_closed() -> None:
    exchange = Exchange(Response(FIRST))
    await exchange.attempt(ONE)
    assert not await exchange.answer.close_if_complete()


@pytest.mark.parametrize(
    ("replica", "fields", "why_not"),
    [
        (SGLANG, {}, "the engine does not report token ids"),
        (SGLANG, {"n": 2}, "the engine does not report token ids"),
        (ONE, {"n": 2}, "n cannot be carried over"),
        (ONE, {"logprobs": 1}, "logprobs cannot be carried over"),
        (ONE, {"stream": False}, "it is no stream"),
        (SGLANG, {"stream": False}, "it is no stream"),
    ],
)
async def test_other_streams_are_not_tracked(
    replica: Replica, fields: dict[str, object], why_not: str
) -> None:
    exchange = Exchange(Response(FIRST), **fields)
    await exchange.attempt(replica)
    assert exchange.answer.why_not_continued == why_not
    assert "return_token_ids" not in exchange.engines.sent[0][2]


async def test_a_stream_begun_again_elsewhere_is_tracked_no_more() -> None:
    """Its first attempt could have been continued; nothing of it has reached the client."""
    exchange = Exchange(Response(), Response(FIRST))
    await exchange.attempt(ONE)
    await exchange.attempt(SGLANG)
    assert exchange.answer.why_not_continued == "the engine does not report token ids"
