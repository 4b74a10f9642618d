"""What counts as the answer to a request, and what ends its attempt, in simulated time."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED
from paceline.runtime.gateway.proxy.upstream import Broken
from unit.gateway.continuation.streams import completion_chunk
from unit.gateway.proxy.attempts.scripted_engines import (
    COMMENT,
    DONE,
    TOKEN,
    WHOLE,
    Exchange,
    Response,
    ended,
    simulate,
    text_of,
)

ABORTED = b'{"choices":[{"text":"a","finish_reason":"abort"}]}'


def test_a_whole_answer_is_delivered_with_its_usage() -> None:
    async def scenario() -> None:
        response = Response(WHOLE)
        exchange = Exchange(response, stream=False)
        assert await ended(exchange) == (COMPLETED, 0.0)
        usage = exchange.reply.delivered.usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.output_tokens) == (2, 3)
        assert (exchange.status, exchange.body, exchange.is_ended) == (200, WHOLE, True)
        assert response.max_bytes == 64 * 2**20
        assert exchange.reserved.num_bytes == 0, "the answer is gone"

    simulate(scenario)


def test_a_whole_answer_that_the_engine_aborted_is_an_error() -> None:
    async def scenario() -> None:
        exchange = Exchange(Response(ABORTED), stream=False)
        end, _ = await ended(exchange)
        assert (end.outcome, exchange.status) == (Outcome.ENGINE_ERROR, None)
        assert end.problem is not None
        assert end.problem.status == 503

    simulate(scenario)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (WHOLE, Outcome.BROKEN),
        (b"\r\n" + WHOLE, Outcome.BROKEN),
        (b"<html>/opt/vllm</html>", Outcome.BROKEN),
        (b"", Outcome.BROKEN),
        (b"Internal Server Error", Outcome.BROKEN),
        (b'{"error":{"message":"/opt/vllm"}}', Outcome.ENGINE_ERROR),
        (b'{"object":"error","message":"too long","code":400}', Outcome.ENGINE_REFUSED),
    ],
)
@pytest.mark.parametrize("num_parts", [1, 2])
def test_what_is_no_stream_does_not_answer_a_request_for_one(
    answer: bytes, outcome: Outcome, num_parts: int
) -> None:
    """Clients that read events would take it for an empty answer."""

    async def scenario() -> None:
        half = len(answer) // num_parts
        parts = [part for part in (answer[:half], answer[half:]) if part]
        exchange = Exchange(Response(*parts))
        end, _ = await ended(exchange)
        assert (end.outcome, exchange.status) == (outcome, None)
        assert end.problem is not None
        assert "/opt" not in end.problem.message

    simulate(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE[:20],
        b"",
        b"<html></html>",
        b'{"detail":"x"}',
        b"data: " + WHOLE + b"\n\ndata: [DONE]\n\n",
    ],
)
def test_what_is_no_whole_answer_does_not_answer_a_request_for_one(answer: bytes) -> None:
    async def scenario() -> None:
        exchange = Exchange(Response(answer), stream=False)
        end, _ = await ended(exchange)
        assert (end.outcome, exchange.status) == (Outcome.BROKEN, None)

    simulate(scenario)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("status", [200, 500])
def test_a_compressed_answer_is_none(status: int, is_stream: bool) -> None:
    async def scenario() -> None:
        exchange = Exchange(Response(WHOLE, status=status, is_encoded=True), stream=is_stream)
        end, _ = await ended(exchange)
        outcome = Outcome.BROKEN if status == 200 else Outcome.ENGINE_ERROR
        assert (end.outcome, exchange.status) == (outcome, None)

    simulate(scenario)


def test_the_rest_of_a_stream_cannot_come_in_one_piece() -> None:
    async def scenario() -> None:
        first = Response(completion_chunk("a", [97], prompt_ids=[120]))
        rest = Response(WHOLE)
        exchange = Exchange(first, text_of([120]), text_of([120, 97]), rest, max_tokens=5)
        for outcome in (Outcome.BROKEN, Outcome.BROKEN):
            end = await exchange.attempt()
            assert end.outcome is outcome
        assert end.detail == "the answer to a request for a stream is none"

    simulate(scenario)


def test_an_error_inside_a_stream_ends_it_after_the_events_before() -> None:
    async def scenario() -> None:
        error = b'data: {"error":{"type":"Bad","code":400,"message":"no"}}\n\n'
        exchange = Exchange(Response(TOKEN + error + DONE))
        end, _ = await ended(exchange)
        assert (end.outcome, exchange.body) == (Outcome.ENGINE_REFUSED, TOKEN)
        assert end.detail.startswith("answered 400: Bad, ")
        assert not exchange.is_ended

    simulate(scenario)


@pytest.mark.parametrize("reads", [(TOKEN,), (TOKEN, COMMENT), (), (COMMENT,)])
def test_a_stream_without_its_end_is_broken(reads: tuple[bytes, ...]) -> None:
    async def scenario() -> None:
        exchange = Exchange(Response(*reads))
        end, _ = await ended(exchange)
        assert (end.outcome, exchange.body) == (Outcome.BROKEN, b"".join(reads))
        assert (exchange.is_ended, exchange.observer.completed) == (False, [])
        assert exchange.reply.delivered.has_data is (TOKEN in reads)

    simulate(scenario)


def test_events_that_cannot_continue_a_stream_break_it() -> None:
    async def scenario() -> None:
        first = Response(completion_chunk("a", [97], prompt_ids=[120]))
        rest = Response(b"data: {broken\n\n")
        exchange = Exchange(first, text_of([120]), text_of([120, 97]), rest, max_tokens=5)
        await exchange.attempt()
        end = await exchange.attempt()
        assert end.outcome is Outcome.BROKEN
        assert end.detail == "an event is no JSON"

    simulate(scenario)


@pytest.mark.parametrize(
    "rest",
    [b"event: close\ndata: bye\n\n", b"data: <html>\n\n", b'data: {"error":{"code":500}}\n\n'],
)
@pytest.mark.parametrize("together", [True, False])
def test_nothing_that_follows_a_complete_answer_takes_it_back(rest: bytes, together: bool) -> None:
    async def scenario() -> None:
        last = TOKEN + b'data: {"choices":[{"text":"b","finish_reason":"stop"}]}\n\n'
        exchange = Exchange(Response(last + rest) if together else Response(last, rest))
        assert (await ended(exchange))[0] == COMPLETED
        assert exchange.body == last + b"data: [DONE]\n\n"

    simulate(scenario)


@pytest.mark.parametrize("fault", [None, Broken("reset")])
def test_a_usage_that_was_asked_for_is_missing_only_where_the_replica_sent_none(
    fault: Broken | None,
) -> None:
    async def scenario() -> None:
        last = b'data: {"choices":[{"text":"b","finish_reason":"stop"}]}\n\n'
        fields = {"stream_options": {"include_usage": True}}
        exchange = Exchange(Response(last, fault=fault), **fields)
        end, _ = await ended(exchange)
        assert end.outcome is (Outcome.BROKEN if fault else Outcome.COMPLETED)

    simulate(scenario)


def test_a_replica_s_bytes_never_count_as_a_fault_of_the_gateway() -> None:
    async def scenario() -> None:
        deep = b'data: {"choices":[],"x":' + b"[" * 5000 + b"]" * 5000 + b"}\n\n"
        end, _ = await ended(Exchange(Response(TOKEN, deep)))
        assert end.outcome is Outcome.BROKEN

    simulate(scenario)
