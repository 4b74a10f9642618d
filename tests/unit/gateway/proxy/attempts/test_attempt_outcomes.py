"""The time limits, failures and progress of an exchange with a replica, in simulated time."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED
from paceline.runtime.gateway.proxy.lease import Lease
from paceline.runtime.gateway.proxy.upstream import Broken, NotSent, TooLarge, Unreachable
from unit.gateway.continuation.streams import text_in
from unit.gateway.proxy.attempts.scripted_engines import (
    COMMENT,
    DONE,
    PLAIN,
    TOKEN,
    WHOLE,
    Exchange,
    Response,
    ended,
    simulate,
)


@pytest.mark.parametrize(
    ("reads", "outcome", "after_s", "named_s"),
    [
        ((TOKEN, 4.9, TOKEN, 4.9, DONE), Outcome.COMPLETED, 9.8, None),
        ((19.9, TOKEN, 4.9, DONE), Outcome.COMPLETED, 24.8, None),
        ((20.1, TOKEN), Outcome.TIMED_OUT, 20.0, "20 s"),
        ((COMMENT, 20.1, TOKEN), Outcome.TIMED_OUT, 20.0, "20 s"),
        ((3.0, COMMENT, 16.0, TOKEN, DONE), Outcome.COMPLETED, 19.0, None),
        ((2.0, TOKEN, 5.1, DONE), Outcome.TIMED_OUT, 7.0, "5 s"),
        ((2.0, TOKEN, 4.0, COMMENT, 4.0, DONE), Outcome.TIMED_OUT, 7.0, "5 s"),
        ((2.0, TOKEN[:20], 5.1, TOKEN[20:] + DONE), Outcome.COMPLETED, 7.1, None),
    ],
)
def test_the_time_limits_of_a_stream(
    reads: tuple[bytes | float, ...], outcome: Outcome, after_s: float, named_s: str | None
) -> None:
    async def scenario() -> None:
        end, ended_s = await ended(Exchange(Response(*reads)))
        assert (end.outcome, ended_s) == (outcome, after_s)
        if named_s is not None:
            assert end.problem is not None
            assert end.problem.message == f"The engine sent nothing for {named_s}."

    simulate(scenario)


@pytest.mark.parametrize(
    ("reads", "is_stream", "outcome", "after_s"),
    [
        ((5.1, TOKEN), True, Outcome.TOO_SLOW, 5.0),
        ((COMMENT, 5.1, TOKEN), True, Outcome.TOO_SLOW, 5.0),
        ((4.9, TOKEN, 4.9, TOKEN, 4.9, DONE), True, Outcome.COMPLETED, 14.7),
        ((4.9, TOKEN, 5.1, DONE), True, Outcome.TIMED_OUT, 9.9),
        ((29.9, WHOLE), False, Outcome.COMPLETED, 29.9),
        ((30.1, WHOLE), False, Outcome.TOO_SLOW, 30.0),
    ],
)
def test_a_second_opinion_must_come_soon(
    reads: tuple[bytes | float, ...], is_stream: bool, outcome: Outcome, after_s: float
) -> None:
    """A slow one says nothing about its replica."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        end = await Exchange(Response(*reads), stream=is_stream).attempt(PLAIN, is_opinion=True)
        assert (end.outcome, round(loop.time() - began_s, 6)) == (outcome, after_s)
        assert (end.suspicion is None) is (outcome is not Outcome.TIMED_OUT)

    simulate(scenario)


def test_an_answer_in_one_piece_has_a_limit_of_its_own() -> None:
    async def scenario() -> None:
        slow = Exchange(Response(29.9, WHOLE), stream=False)
        assert await ended(slow) == (COMPLETED, 29.9)
        assert slow.body == WHOLE
        end, ended_s = await ended(Exchange(Response(30.1, WHOLE), stream=False))
        assert (end.outcome, ended_s) == (Outcome.TOO_SLOW, 30.0)
        assert end.detail == "not complete after 30 s"

    simulate(scenario)


@pytest.mark.parametrize(("is_stream", "named_s"), [(True, "20 s"), (False, "30 s")])
def test_an_attempt_on_a_hung_replica_has_timed_out(is_stream: bool, named_s: str) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def cut_later(lease: Lease) -> None:
            loop.call_later(1.5, lease.cut, Outcome.TIMED_OUT)

        end, ended_s = await ended(Exchange(None, stream=is_stream), cut_later)
        assert (end.outcome, ended_s) == (Outcome.TIMED_OUT, 1.5)
        assert named_s in end.detail

    simulate(scenario)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("error", "outcome", "detail"),
    [
        (NotSent("why"), Outcome.NOT_SENT, "why"),
        (Unreachable("why"), Outcome.UNREACHABLE, "why"),
        (Broken("why"), Outcome.BROKEN, "why"),
        (TooLarge("why"), Outcome.TOO_LARGE, "longer than 67108864 bytes"),
    ],
)
def test_a_request_that_fails_before_its_answer(
    is_stream: bool, error: Exception, outcome: Outcome, detail: str
) -> None:
    async def scenario() -> None:
        exchange = Exchange(error, stream=is_stream)
        end, _ = await ended(exchange)
        assert (end.outcome, end.detail) == (outcome, detail)
        assert exchange.status is None
        assert exchange.leases.in_flight() == {}

    simulate(scenario)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (201, Outcome.MISDIRECTED),
        (302, Outcome.MISDIRECTED),
        (403, Outcome.MISDIRECTED),
        (400, Outcome.ENGINE_REFUSED),
        (500, Outcome.ENGINE_ERROR),
        (503, Outcome.ENGINE_ERROR),
    ],
)
def test_an_error_is_translated_and_not_yet_sent(status: int, outcome: Outcome) -> None:
    async def scenario() -> None:
        error = Response(b'{"error":{"type":"Bad","message":"no"}}', status=status)
        exchange = Exchange(error)
        end, _ = await ended(exchange)
        assert end.outcome is outcome
        assert end.detail.startswith(f"answered {status}: Bad, 39 bytes")
        assert (exchange.status, error.max_bytes, error.is_closed) == (None, 256 * 1024, True)

    simulate(scenario)


def test_the_first_token_is_reported_once_and_the_tokens_at_the_end() -> None:
    async def scenario() -> None:
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}\n\n'
        exchange = Exchange(Response(COMMENT, TOKEN, TOKEN, usage + DONE))
        assert await ended(exchange) == (COMPLETED, 0.0)
        assert (exchange.observer.num_first, exchange.observer.completed) == (1, [3])
        assert text_in(exchange.body) == "aa"
        assert exchange.is_ended

    simulate(scenario)


def test_a_stream_without_usage_reports_none() -> None:
    async def scenario() -> None:
        exchange = Exchange(Response(TOKEN + DONE))
        await ended(exchange)
        assert exchange.observer.completed == [None]

    simulate(scenario)


def test_progress_is_that_of_tokens() -> None:
    """While the stream waits for its first token, comments are no progress."""

    async def scenario() -> None:
        exchange = Exchange(Response(1.0, COMMENT, 1.0, TOKEN, 1.0, DONE))
        loop = asyncio.get_running_loop()
        seen: list[tuple[int, int]] = []

        def look() -> None:
            progress = exchange.leases.progress().replicas["a"]
            seen.append((progress.num_first, progress.num_listening))

        for at_s in (0.5, 1.5, 2.5):
            loop.call_later(at_s, look)
        await ended(exchange)
        assert seen == [(1, 0), (1, 0), (0, 1)]

    simulate(scenario)


@pytest.mark.parametrize("parts", [(TOKEN[:9], TOKEN[9:]), (COMMENT, TOKEN), (b": pi", b"ng\n\n")])
def test_a_stream_waits_once_for_its_replica_however_its_events_are_cut(
    parts: tuple[bytes, bytes],
) -> None:
    """Else a replica whose streams have ended would look silent, and be taken for hung."""

    async def scenario() -> None:
        first, second = parts
        exchange = Exchange(Response(TOKEN, 1.0, first, 1.0, second, 1.0, DONE))
        loop = asyncio.get_running_loop()
        seen: list[int] = []

        def look() -> None:
            seen.append(exchange.leases.progress().replicas["a"].num_listening)

        for at_s in (0.5, 1.5, 2.5):
            loop.call_later(at_s, look)
        end, _ = await ended(exchange)
        look()
        assert end == COMPLETED
        assert seen == [1, 1, 1, 0]

    simulate(scenario)


def test_comments_of_a_stream_that_hangs_are_no_progress() -> None:
    async def scenario() -> None:
        comments = [read for _ in range(20) for read in (0.3, b": pi", 0.2, b"ng\n\n")]
        exchange = Exchange(Response(TOKEN, *comments))
        loop = asyncio.get_running_loop()
        seen: list[float] = []

        def look() -> None:
            progress = exchange.leases.progress().replicas["a"]
            seen.append(progress.bytes_at_s)

        loop.call_later(1.0, look)
        loop.call_later(4.0, look)
        end, _ = await ended(exchange)
        assert end.outcome is Outcome.TIMED_OUT
        assert seen[0] == seen[1]

    simulate(scenario)
