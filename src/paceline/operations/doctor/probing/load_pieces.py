"""Short pieces of the load at its highest concurrency, between other measurements.

The time of an answer is compared with times of steps. Both must be of the same minute: a machine
that is a third slower while the load runs than while steps are timed would hide a loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from paceline.operations.doctor.estimates.undrafted import AnswerTime
from paceline.operations.doctor.probing.alternation import NotMeasured
from paceline.operations.doctor.probing.load import Answers, ProbeLoad, hold_load
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.readings.observation import Reading, growth

_PIECE_S = 2.0
_MIN_ANSWERS = 2.0
"""Of each slot in a piece. The first ones of all slots compute their prompts at the same time."""
_MOST_SHARE = 0.3
"""Of the whole time that a piece may take."""


class Load(Protocol):
    """Reports how long answers take under the load."""

    async def measure(self) -> AnswerTime:
        """The mean at present. Raises NotMeasured if none ended."""
        ...


class LoadPieces:
    """Measures the load again and again."""

    def __init__(self, load: ProbeLoad, settings: ProbeSettings, seconds: float) -> None:
        """`seconds` is the length of a piece."""
        self._load, self._settings, self._seconds = load, settings, seconds

    async def measure(self) -> AnswerTime:
        """Send for a moment. Only answers that end within it count."""
        answers = await hold_load(self._load, self._settings.concurrency, self._seconds)
        return _mean(answers, self._settings)


class PastLoad:
    """The load before, where answers take too long for pieces."""

    def __init__(self, time: AnswerTime) -> None:
        self._time = time

    async def measure(self) -> AnswerTime:
        """Always the same."""
        return self._time


def load_of(
    load: ProbeLoad, settings: ProbeSettings, readings: Sequence[Reading], engine: str
) -> Load:
    """Pieces that are long enough for some answers; else the load that was sent before.

    `readings` were made under that load; their tokens/s count where none of its answers ended.
    Raises NotMeasured if they do not show it.
    """
    answers = load.at_full_load
    if not answers.num:
        rate = _tokens_per_s(load, readings, engine)
        seconds = settings.concurrency * settings.max_tokens / rate
        return PastLoad(AnswerTime(seconds, settings.max_tokens))
    before = _mean(answers, settings)
    seconds = max(_PIECE_S, _MIN_ANSWERS * before.seconds)
    if seconds > _MOST_SHARE * settings.seconds:
        return PastLoad(before)
    return LoadPieces(load, settings, seconds)


def _mean(answers: Answers, settings: ProbeSettings) -> AnswerTime:
    if not answers.num:
        raise NotMeasured("no answer ended while the load was at its highest; give --seconds more")
    mean_s, tokens = answers.seconds / answers.num, answers.tokens / answers.num
    variance = max(0.0, answers.squared_seconds / answers.num - mean_s**2)
    error_s = math.sqrt(variance / answers.num)
    return AnswerTime(mean_s, tokens or settings.max_tokens, error_s)


def _tokens_per_s(load: ProbeLoad, readings: Sequence[Reading], engine: str) -> float:
    begin_s, end_s = load.full_load_s
    within = [one.engines[engine] for one in readings if begin_s <= one.at_s <= end_s]
    tokens = growth(within, lambda one: one.generation_tokens_total) if len(within) > 1 else None
    if not tokens:
        raise NotMeasured("the load was too short to show its tokens/s; give --seconds more")
    return tokens / (within[-1].at_s - within[0].at_s)
