"""The rate of the load between other measurements."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from yarl import URL

from paceline.bench.load.records import RequestOutcome, RequestRecord
from paceline.doctor.estimates.undrafted import LoadRate
from paceline.doctor.observing.server import ReadingFailed
from paceline.doctor.probing.alternation import NotMeasured
from paceline.doctor.probing.load import ProbeLoad
from paceline.doctor.probing.load_pieces import LoadPieces, PastLoad, load_of
from paceline.doctor.probing.settings import ProbeSettings
from paceline.doctor.readings.engines import EngineReading
from paceline.doctor.readings.observation import Reading
from paceline.doctor.readings.page import MetricsPage

SETTINGS = ProbeSettings(URL("http://127.0.0.1:1"), None, 30.0, concurrency=4)


@dataclass
class Server:
    """Answers each request with 20 tokens after 10 ms, and counts them."""

    tokens: float = 0.0
    fails: bool = False

    async def read(self) -> Reading:
        if self.fails:
            raise ReadingFailed("it has ended")
        at_s = time.monotonic()
        engine = EngineReading(at_s, generation_tokens_total=self.tokens)
        return Reading(at_s, MetricsPage({}), kept_engines={"engine 0": engine})

    async def send_until(self, spec: object, *_: float) -> RequestRecord:
        sent_s = time.monotonic()
        await asyncio.sleep(0.01)
        self.tokens += 20
        now_s = time.monotonic()
        return RequestRecord(
            0, "t", sent_s, sent_s, (now_s,), now_s, RequestOutcome.OK, output_tokens=20
        )


def _load(server: Server) -> ProbeLoad:
    specs = iter(SimpleNamespace, None)
    return ProbeLoad(cast("Any", server), cast("Any", specs), "m", "hard", 1.0, ("x",))


async def test_a_piece_gives_the_tokens_that_the_server_counted_and_the_answers_length() -> None:
    server = Server()
    load = _load(server)
    pieces = LoadPieces(load, cast("Any", server), "engine 0", SETTINGS, 0.3)
    begun_s = time.monotonic()
    rate = await pieces.measure()
    assert rate.tokens_per_s == pytest.approx(server.tokens / (time.monotonic() - begun_s), rel=0.1)
    assert rate.answer_tokens == 20
    assert load.num_requests > 4


async def test_a_server_that_cannot_be_read_has_a_reason() -> None:
    server = Server(fails=True)
    pieces = LoadPieces(_load(server), cast("Any", server), "engine 0", SETTINGS, 0.1)
    with pytest.raises(NotMeasured, match="it has ended"):
        await pieces.measure()


def _chosen(answer_s: float) -> object:
    load = _load(Server())
    load.num_answers, load.answer_tokens, load.answer_s = 10, 500, 10 * answer_s
    load.full_load_s = (0.5, 3.0)
    readings = [
        Reading(
            float(second),
            MetricsPage({}),
            kept_engines={"engine 0": EngineReading(generation_tokens_total=100.0 * second**2)},
        )
        for second in range(4)
    ]
    return load_of(load, cast("Any", Server()), "engine 0", SETTINGS, readings)


def test_pieces_have_time_for_four_answers() -> None:
    """Nine seconds of thirty are the most."""
    assert isinstance(_chosen(2.25), LoadPieces)
    assert isinstance(_chosen(2.26), PastLoad)


async def test_slow_answers_are_those_of_the_load_before() -> None:
    """From second 1 to 3: 800 tokens in two seconds."""
    past = _chosen(5.0)
    assert isinstance(past, PastLoad)
    assert await past.measure() == LoadRate(400.0, 50.0)
