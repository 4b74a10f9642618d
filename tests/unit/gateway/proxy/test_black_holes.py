"""A replica that answers at once and serves nothing does not attract the requests of others."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from paceline.runtime.gateway.proxy import second_opinions
from paceline.runtime.gateway.proxy.second_opinions import (
    CHECK_EVERY,
    NUM_TRUSTED,
    RefusalKind,
    SecondOpinions,
    refusal_kind,
)
from unit.gateway.conftest import until
from unit.gateway.proxy.poisoned_engines import FAILURES, POISON, fleet

REDIRECTS = (201, 202, 204, 206, 300, 301, 302, 303, 304, 307, 308)
LOGINS = (401, 402, 403, 407, 511)
REFUSALS = (400, 404, 405, 406, 408, 410, 413, 415, 421, 422, 424, 426, 451)
BUSY = (429, 500, 501, 502, 503, 504)


def kind(
    replica: str = "a",
    tenant: str | None = None,
    status: int = 400,
    text: str = "max_tokens is 7, not 'x'",
) -> RefusalKind:
    return refusal_kind(replica, tenant, status, text)


def trusting(one: RefusalKind) -> SecondOpinions:
    """Others agreed with this refusal at 0 s, as often as trust needs."""
    opinions = SecondOpinions()
    for _ in range(NUM_TRUSTED):
        opinions.note(one, 0.0, agrees=True)
    return opinions


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("status", [*REDIRECTS, *LOGINS, *REFUSALS, *BUSY])
async def test_a_replica_that_answers_everything_with_one_status_loses_no_request(
    status: int, is_stream: bool
) -> None:
    async with fleet(2) as both:
        both.engines[0].ill = status
        answers = [await both.ask(stream=is_stream) for _ in range(7)]
        assert Counter(answer.status_code for answer in answers) == {200: 7}
        assert both.engines[0].num_begun == FAILURES.min_samples
        assert both.breakers() == ["open", "closed"]


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b'{"error":{"message":"no"}}'])
async def test_a_login_page_is_no_refusal_whatever_its_body(body: bytes) -> None:
    async with fleet(2) as both:
        both.engines[0].ill, both.engines[0].body = 404, body
        assert [(await both.ask()).status_code for _ in range(7)] == [200] * 7
        assert both.breakers() == ["open", "closed"]


@pytest.mark.parametrize("status", [204, 302, 401, 403, 407])
async def test_a_status_that_no_engine_sends_has_a_name_of_its_own(status: int) -> None:
    async with fleet(1) as one:
        one.engines[0].ill = status
        answer = await one.ask()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_misdirected")
        assert answer.headers["retry-after"]
        assert await one.count('paceline_requests_total{outcome="misdirected"}') == 1


async def test_a_replica_that_refuses_at_once_gets_few_of_the_requests_that_arrive_meanwhile() -> (
    None
):
    """Nothing is known of it yet, and the other one has not answered anything."""
    async with fleet(2, replace(FAILURES, min_samples=100)) as both:
        bad, good = both.engines
        bad.ill, good.holds = 302, asyncio.Event()
        asking = []
        for number in range(40):
            asking.append(asyncio.create_task(both.ask()))
            await until(lambda number=number: good.num_begun == number + 1)  # type: ignore[misc]
        assert bad.num_begun <= 40 / 4
        good.holds.set()
        answers = await asyncio.gather(*asking)
        assert {answer.status_code for answer in answers} == {200}


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_bad_requests_cost_little_more_than_one_answer_each(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_opinions, "TRUSTED_S", 600.0)
    async with fleet(2) as both:
        for engine in both.engines:
            engine.ill, engine.body = status, b'{"error":{"message":"No such tool."}}'
        answers = [await both.ask() for _ in range(100)]
        assert not any(answer.status_code >= 500 for answer in answers)
        num_trusted = 100 - NUM_TRUSTED
        assert sum(both.num_begun()) == 100 + NUM_TRUSTED + num_trusted // CHECK_EVERY
        assert both.breakers() == ["closed", "closed"]


async def test_a_refusal_reaches_the_client_although_the_second_replica_fails() -> None:
    async with fleet(2) as both:
        first, second = both.engines
        first.ill, first.body = 400, b'{"error":{"message":"No such tool."}}'
        second.ill = 500
        answer = await both.ask()
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, "No such tool.")
        assert await both.count('paceline_requests_total{outcome="engine_refused"}') == 1


async def test_the_refusal_of_a_shorter_context_is_no_fault() -> None:
    async with fleet(2) as both:
        first = both.engines[0]
        first.ill = 400
        first.body = b'{"error":{"message":"This model\'s maximum context length is 9 tokens."}}'
        assert [(await both.ask()).status_code for _ in range(7)] == [200] * 7
        assert both.breakers() == ["closed", "closed"]


@pytest.mark.parametrize("status", [302, 401, 404, 500, 503])
async def test_a_stream_is_not_lost_to_a_black_hole(status: int) -> None:
    """Its own replica cut only the connection, and can continue it."""
    async with fleet(2) as both:
        both.engines[0].cut_chats = 1
        both.engines[1].ill = status
        answer = await both.ask(stream=True)
        assert answer.text.endswith("data: [DONE]\n\n")
        assert '"error"' not in answer.text


async def test_a_stream_passes_a_black_hole_on_its_way_to_another_replica() -> None:
    async with fleet(3) as three:
        for status in (302, 404, 500):
            three.engines[0].cut_chats = 1
            three.engines[1].ill = status
            answer = await three.ask(stream=True)
            assert answer.text.endswith("data: [DONE]\n\n")
            assert '"error"' not in answer.text


def test_a_tenant_that_sends_bad_requests_makes_no_replica_trusted_for_others() -> None:
    opinions = trusting(kind(tenant="bad"))
    assert not opinions.is_wanted(kind(tenant="bad"), 0.0)
    assert opinions.is_wanted(kind(tenant="good"), 0.0)
    assert opinions.is_wanted(kind("b", tenant="bad"), 0.0)


@pytest.mark.parametrize(
    ("asked", "now_s", "expected"),
    [
        (kind(), 0.0, False),
        (kind(), 4.9, False),
        (kind(), 5.1, True),
        (kind(text="max_tokens is 31, not 'y'"), 0.0, False),
        (kind(text="unknown field"), 0.0, True),
        (kind(status=404), 0.0, True),
        (kind("b"), 0.0, True),
    ],
)
def test_trust_holds_for_one_refusal_of_one_replica_and_lapses(
    asked: RefusalKind, now_s: float, expected: bool
) -> None:
    """Numbers and quoted values differ from request to request."""
    assert trusting(kind()).is_wanted(asked, now_s) is expected


def test_trust_that_lapsed_is_earned_anew() -> None:
    opinions = trusting(kind())
    opinions.note(kind(), 6.0, agrees=True)
    assert opinions.is_wanted(kind(), 6.0)


async def test_a_trusted_replica_that_turns_bad_refuses_few_good_requests() -> None:
    """Whatever it says: with words of its own none, with those of its true refusals three."""
    async with fleet(2) as both:
        first, second = both.engines
        first.body = second.body = b'{"error":{"message":"No such tool."}}'
        first.poison = second.poison = 400
        for text, num_refused in (("No model.", 0), ("No such tool.", CHECK_EVERY - 1)):
            for _ in range(NUM_TRUSTED):
                await both.ask(POISON)
            first.ill, first.body = 400, b'{"error":{"message":"%s"}}' % text.encode()
            statuses = [(await both.ask()).status_code for _ in range(12)]
            assert statuses.count(400) <= num_refused
            first.ill, first.body = "", second.body


def test_one_refusal_that_others_do_not_share_ends_the_trust() -> None:
    opinions = trusting(kind())
    assert not opinions.is_wanted(kind(), 0.0)
    opinions.note(kind(), 0.0, agrees=False)
    assert all(opinions.is_wanted(kind(), 0.0) for _ in range(50))


def test_what_is_known_of_refusals_is_bounded() -> None:
    opinions = SecondOpinions()
    for number in range(10_000):
        opinions.is_wanted(kind(tenant=f"tenant-{number}"), 0.0)
    assert len(opinions._records) == 4096
