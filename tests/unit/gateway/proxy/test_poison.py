"""Requests that every engine fails are no outage: those of others are served and continued."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from paceline.runtime.gateway import Replica
from paceline.runtime.gateway.http.whole_answer import error_in
from paceline.runtime.gateway.proxy.attempt import Attempt
from paceline.runtime.gateway.proxy.upstream import Liveness, UpstreamResponse, Upstreams
from unit.gateway.conftest import until
from unit.gateway.proxy.poisoned_engines import FAILURES, POISON, fleet

WHOLE = (500, 502, 503, 504, 403, "reset")
STREAMS = (*WHOLE, "event_at_once", "event", "cut")
POISONS = [*((way, False) for way in WHOLE), *((way, True) for way in STREAMS)]


@pytest.mark.parametrize("num_replicas", [2, 3])
@pytest.mark.parametrize(("way", "is_stream"), POISONS)
async def test_poison_of_one_client_does_not_stop_the_failover_of_others(
    way: int | str, is_stream: bool, num_replicas: int
) -> None:
    """Also when nobody else has sent anything, so that all breakers are open."""
    async with fleet(num_replicas) as all_of:
        for engine in all_of.engines:
            engine.poison = way
        for _ in range(7):
            await all_of.ask(POISON, stream=is_stream)
        assert "open" in all_of.breakers()
        for engine in all_of.engines:
            engine.cut_chats = 1
        answer = await all_of.ask(stream=True)
        assert answer.text.endswith("data: [DONE]\n\n")
        assert '"error"' not in answer.text


@pytest.mark.parametrize(("way", "is_stream"), POISONS)
async def test_poison_among_good_requests_opens_no_breaker(way: int | str, is_stream: bool) -> None:
    async with fleet(2) as both:
        for engine in both.engines:
            engine.poison = way
        first, second = both.source.current
        for _ in range(7):
            await both.ask(POISON, stream=is_stream)
            for one in (first, second):  # each serves others
                both.source.current = [one]
                assert (await both.ask()).status_code == 200
            both.source.current = [first, second]
        assert both.breakers() == ["closed", "closed"]


async def test_poison_with_several_choices_opens_no_breaker() -> None:
    async with fleet(2) as both:
        for engine in both.engines:
            engine.poison = 500
        first, second = both.source.current
        for _ in range(7):
            assert (await both.ask(POISON, n=4)).status_code == 500
            for one in (first, second):
                both.source.current = [one]
                assert (await both.ask(n=2)).status_code == 200
            both.source.current = [first, second]
        assert both.breakers() == ["closed", "closed"]


async def test_poison_does_not_take_the_only_replica_from_others() -> None:
    async with fleet(1) as one:
        one.engines[0].poison = 500
        for _ in range(7):
            await one.ask(POISON)
        assert one.breakers() == ["open"]
        assert (await one.ask(stream=True)).text.endswith("data: [DONE]\n\n")


async def test_poison_that_holds_the_trial_of_a_replica_does_not_keep_others_waiting() -> None:
    """Every breaker is half open, and each trial is a request that hangs."""
    failures = replace(FAILURES, open_s=0.01, max_open_s=0.01)
    async with fleet(2, failures) as both:
        for engine in both.engines:
            engine.poison, engine.ill = "hang", 500
        for _ in range(20):
            await both.ask()
        for engine in both.engines:
            engine.ill = ""
        await until(lambda: both.breakers() == ["half_open", "half_open"])
        trials = [asyncio.create_task(both.ask(POISON)) for _ in range(2)]
        await until(lambda: sum(engine.num_poisoned for engine in both.engines) == 2)
        for engine in both.engines:
            engine.cut_chats = 1
        answer = await both.ask(stream=True)
        assert answer.text.endswith("data: [DONE]\n\n")
        for trial in trials:
            trial.cancel()


@pytest.mark.parametrize("way", [500, "reset", 504])
async def test_poison_leaves_the_retries_that_others_need_when_a_replica_dies(
    way: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = replace(FAILURES, retry_reserve=3, retry_fraction=0.0)
    async with fleet(2, failures) as both:
        for engine in both.engines:
            engine.poison = way
        for _ in range(9):
            await both.ask(POISON)
        num_poisoned = sum(engine.num_poisoned for engine in both.engines)
        assert num_poisoned == 9 + 3, "the retries of poison are spent"
        both.engines[0].ill = "reset"
        address = both.source.current[0].address

        async def liveness(self: object, replica: Replica, within_s: float) -> Liveness:
            return Liveness.ENDED if replica.address == address else Liveness.LIVES

        monkeypatch.setattr(Upstreams, "liveness", liveness)
        both.source.current = [*both.source.current]
        answers = [await both.ask() for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3


ALONE = replace(FAILURES, max_attempts=1)
WITHOUT_BUDGET = replace(FAILURES, retry_reserve=0, retry_fraction=0.0)


@pytest.mark.parametrize("way", [500, 503, 302, 204, 401, "reset"])
@pytest.mark.parametrize("failures", [FAILURES, ALONE, WITHOUT_BUDGET])
async def test_a_replica_that_fails_every_request_is_taken_out(
    way: int | str, failures: object
) -> None:
    """Also where no other replica is asked, because of the limits on retries."""
    async with fleet(2, failures) as both:  # type: ignore[arg-type]
        both.engines[0].ill = way
        for _ in range(7):
            await both.ask()
        assert both.breakers() == ["open", "closed"]
        assert both.engines[0].num_begun == 4
        assert (await both.ask()).status_code == 200


@pytest.mark.parametrize("way", [500, 503, 302, "reset"])
async def test_two_of_three_replicas_that_fail_every_request_are_taken_out(way: int | str) -> None:
    """They agree with each other, but neither serves anything."""
    async with fleet(3) as three:
        three.engines[0].ill = three.engines[1].ill = way
        for _ in range(14):
            await three.ask()
        assert three.breakers() == ["open", "open", "closed"]
        assert (await three.ask()).status_code == 200


async def test_a_replica_that_fails_half_of_its_requests_is_taken_out_amid_poison() -> None:
    """Most errors are those of the poison; those that are not decide."""
    async with fleet(2) as both:
        first, second = both.engines
        first.poison = second.poison = 500
        for number in range(40):
            first.ill = 500 if number % 4 else ""
            await both.ask(POISON)
            assert (await both.ask()).status_code == 200
            if both.breakers() == ["open", "closed"]:
                break
        assert both.breakers() == ["open", "closed"]


async def test_a_stream_that_hangs_engines_hangs_two() -> None:
    """Each is found hung, and its streams are ended."""
    async with fleet(3, replace(FAILURES, first_silence_s=0.2)) as three:
        for engine in three.engines:
            engine.poison = "hang"
        assert (await three.ask(POISON, stream=True)).status_code == 504
        assert sorted(three.num_begun()) == [0, 1, 1]


SAID = [(503, False), (502, True), (429, False), (400, True), (204, False), ("reset", False)]
SAID += [(way, True) for way in ("event_503", "event_in_words", "abort", "cut", "event")]


@pytest.mark.parametrize(("way", "is_stream"), SAID)
async def test_poison_ends_two_engines_whatever_they_say_before_they_exit(
    way: int | str, is_stream: bool
) -> None:
    async with fleet(4, dying_s=60) as four:
        for engine in four.engines:
            engine.poison, engine.exits = way, True
        await four.ask(POISON, stream=is_stream)
        assert sum(engine.num_poisoned for engine in four.engines) <= 2


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_busy_replica_that_serves_half_of_its_requests_stays_in(is_stream: bool) -> None:
    """It sheds every second one with a 429, which an idle replica serves."""
    async with fleet(2) as both:
        for number in range(20):
            both.engines[0].ill = 429 if number % 2 else ""
            assert (await both.ask(stream=is_stream)).status_code == 200
        assert both.breakers() == ["closed", "closed"]


async def test_a_replica_whose_answers_make_the_gateway_fail_is_taken_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_whole = Attempt._read_whole

    async def fail(self: Attempt, response: UpstreamResponse, start: bytes = b"") -> bytes:
        if self._lease.replica.name == "r0":
            raise RecursionError
        return await read_whole(self, response, start)

    async with fleet(2) as both:
        monkeypatch.setattr(Attempt, "_read_whole", fail)
        answers = [await both.ask() for _ in range(7)]
        assert {answer.status_code for answer in answers} == {200}
        assert both.breakers() == ["open", "closed"]


async def test_a_request_on_which_the_gateway_fails_opens_no_breaker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where others are served: its own fault occurs with the answer of every replica."""

    def fail(body: bytes, content: str) -> bytes | None:
        if POISON.encode() in body:
            raise RecursionError
        return error_in(body, content)

    async with fleet(2) as both:
        monkeypatch.setattr("paceline.runtime.gateway.proxy.attempt.error_in", fail)
        for engine in both.engines:
            engine.poison, engine.body = 200, POISON.encode()
        first, second = both.source.current
        for _ in range(7):
            answer = await both.ask(POISON)
            assert answer.json()["error"]["code"] == "internal_error"
            for one in (first, second):
                both.source.current = [one]
                assert (await both.ask()).status_code == 200
            both.source.current = [first, second]
        assert both.breakers() == ["closed", "closed"]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_engine_that_says_it_has_ended_counts_as_one_that_ended(is_stream: bool) -> None:
    dead = b'{"error":{"message":"EngineCore encountered an issue. See stack trace."}}'
    async with fleet(4) as four:
        for engine in four.engines:
            engine.poison, engine.body = 500, dead
        assert (await four.ask(POISON, stream=is_stream)).status_code == 503
        assert sorted(four.num_begun()) == [0, 0, 1, 1]
