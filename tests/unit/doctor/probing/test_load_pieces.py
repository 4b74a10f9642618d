"""How long answers take under the load, between other measurements."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from yarl import URL

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.servers.metrics_page import MetricsPage
from paceline.operations.doctor.estimates.undrafted import AnswerTime
from paceline.operations.doctor.probing.alternation import NotMeasured
from paceline.operations.doctor.probing.load import Answers, ProbeLoad, send_load
from paceline.operations.doctor.probing.load_pieces import LoadPieces, PastLoad, load_of
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Reading

SETTINGS = ProbeSettings(URL("http://127.0.0.1:1"), None, 30.0, concurrency=4)
ANSWER_S = 0.02


class Sender:
    """Every third request fails at once; the others have 20 tokens after 20 ms."""

    def __init__(self) -> None:
        self.num_sent = 0

    async def send_until(self, spec: object, *_: float) -> RequestRecord:
        self.num_sent += 1
        sent_s = time.monotonic()
        times = ("t", sent_s, sent_s)
        if self.num_sent % 3 == 0:
            outcome = RequestOutcome.CONNECTION
            return RequestRecord(0, *times, (), sent_s, outcome, error="refused")
        await asyncio.sleep(ANSWER_S)  # sleep: of virtual time
        ended_s = sent_s + ANSWER_S
        return RequestRecord(0, *times, (ended_s,), ended_s, RequestOutcome.OK, output_tokens=20)


def _load() -> ProbeLoad:
    specs = iter(SimpleNamespace, None)
    return ProbeLoad(cast("Any", Sender()), cast("Any", specs), "m", "hard", 1.0, ("x",))


async def test_a_piece_gives_the_mean_of_the_answers_that_ended() -> None:
    load = _load()
    answer = await LoadPieces(load, SETTINGS, 0.3).measure()
    assert (answer.seconds, answer.tokens) == (pytest.approx(ANSWER_S), 20)
    assert load.num_requests > 8
    assert 0 < load.num_failed < load.num_requests


async def test_a_piece_without_an_answer_has_a_reason() -> None:
    with pytest.raises(NotMeasured, match="no answer ended"):
        await LoadPieces(_load(), SETTINGS, 0.0).measure()


async def test_the_load_before_is_that_at_full_load_only() -> None:
    load = _load()
    await send_load(load, ProbeSettings(URL("http://127.0.0.1:1"), None, 0.4, concurrency=2))
    all_answers = load.num_requests - load.num_failed
    assert 0 < load.at_full_load.num < all_answers
    assert load.at_full_load.tokens == 20 * load.at_full_load.num


READINGS = [
    Reading(
        float(second),
        MetricsPage({}),
        kept_engines={
            "engine 0": EngineReading(float(second), generation_tokens_total=50.0 * second)
        },
    )
    for second in range(10)
]


def _chosen(answers: Answers) -> object:
    load = _load()
    load.at_full_load, load.full_load_s = answers, (2.5, 8.5)
    return load_of(load, SETTINGS, READINGS, "engine 0")


def _ten(answer_s: float, tokens: int = 500) -> Answers:
    return Answers(10, tokens, 10 * answer_s, 10 * answer_s**2 + 1.6)


def test_pieces_have_time_for_two_answers() -> None:
    """Nine seconds of thirty are the most."""
    assert isinstance(_chosen(_ten(4.5)), LoadPieces)
    assert isinstance(_chosen(_ten(4.51)), PastLoad)


async def test_slow_answers_are_those_of_the_load_before() -> None:
    """Whose standard deviation is 0.4 s."""
    past = _chosen(_ten(5.0))
    assert isinstance(past, PastLoad)
    answer = await past.measure()
    assert (answer.seconds, answer.tokens) == (5.0, 50.0)
    assert answer.error_s == pytest.approx(0.4 / 10**0.5)


async def test_a_server_that_counts_no_tokens_is_taken_to_give_all_that_may_be_given() -> None:
    past = _chosen(_ten(5.0, tokens=0))
    assert isinstance(past, PastLoad)
    assert (await past.measure()).tokens == SETTINGS.max_tokens


async def test_where_no_answer_ended_the_tokens_per_second_count() -> None:
    """50 of four requests: 64 tokens take one of them 5.12 s."""
    past = _chosen(Answers())
    assert isinstance(past, PastLoad)
    assert await past.measure() == AnswerTime(pytest.approx(5.12), 64)


def test_without_tokens_there_is_a_reason() -> None:
    load = _load()
    with pytest.raises(NotMeasured, match="too short to show its tokens/s"):
        load_of(load, SETTINGS, READINGS, "engine 0")
