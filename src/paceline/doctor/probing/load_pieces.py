"""Short pieces of the load at its highest concurrency, between other measurements.

The rate of the load is compared with times of steps. Both must be of the same minute: a machine
that is a third slower while the load runs than while steps are timed would hide a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from paceline.doctor.estimates.undrafted import LoadRate
from paceline.doctor.observing.server import ObservedServer, ReadingFailed
from paceline.doctor.probing.alternation import NotMeasured
from paceline.doctor.probing.load import ProbeLoad, hold_load
from paceline.doctor.probing.settings import ProbeSettings
from paceline.doctor.readings.observation import Reading, growth

_PIECE_S = 2.0
_MIN_ANSWERS = 4.0
"""Of each slot in a piece. With fewer, the prompts at its start weigh too much."""
_MOST_SHARE = 0.3
"""Of the whole time that a piece may take."""


class Load(Protocol):
    """Reports the rate of the load."""

    async def measure(self) -> LoadRate:
        """The rate at present."""
        ...


class LoadPieces:
    """Measures the load again and again."""

    def __init__(
        self,
        load: ProbeLoad,
        server: ObservedServer,
        engine: str,
        settings: ProbeSettings,
        seconds: float,
    ) -> None:
        """`engine` is the server's only one; `seconds` the length of a piece."""
        self._load, self._server, self._engine = load, server, engine
        self._settings, self._seconds = settings, seconds

    async def measure(self) -> LoadRate:
        """Send for a moment. Raises NotMeasured if the server cannot be read, or gave nothing."""
        try:
            before = await self._server.read()
            await hold_load(self._load, self._settings.concurrency, self._seconds)
            after = await self._server.read()
        except ReadingFailed as failure:
            raise NotMeasured(str(failure)) from failure
        return LoadRate(
            _tokens_per_s((before, after), self._engine), answer_tokens(self._load, self._settings)
        )


class PastLoad:
    """The load before, where one request takes too long for pieces."""

    def __init__(self, rate: LoadRate) -> None:
        self._rate = rate

    async def measure(self) -> LoadRate:
        """Always the same."""
        return self._rate


def load_of(
    load: ProbeLoad,
    server: ObservedServer,
    engine: str,
    settings: ProbeSettings,
    readings: Sequence[Reading],
) -> Load:
    """Pieces that are long enough for some answers; else the load that the readings show.

    Raises NotMeasured if they do not show it.
    """
    seconds = max(_PIECE_S, _MIN_ANSWERS * load.mean_answer_s)
    if load.num_answers and seconds <= _MOST_SHARE * settings.seconds:
        return LoadPieces(load, server, engine, settings, seconds)
    begin_s, end_s = load.full_load_s
    within = [one for one in readings if begin_s <= one.at_s <= end_s]
    return PastLoad(LoadRate(_tokens_per_s(within, engine), answer_tokens(load, settings)))


def answer_tokens(load: ProbeLoad, settings: ProbeSettings) -> float:
    """Mean tokens of an answer."""
    return load.answer_tokens / load.num_answers if load.answer_tokens else settings.max_tokens


def _tokens_per_s(readings: Sequence[Reading], engine: str) -> float:
    pair = [one.engines[engine] for one in readings if engine in one.engines]
    tokens = growth(pair, lambda one: one.generation_tokens_total) if len(pair) > 1 else None
    if not tokens:
        raise NotMeasured("the load was too short to show its tokens/s; give --seconds more")
    return tokens / (readings[-1].at_s - readings[0].at_s)
