"""Short pieces of the load at its highest concurrency, between other measurements.

The time of an answer is compared with times of steps. Both must be of the same minute: a machine
that is a third slower while the load runs than while steps are timed would hide a loss.
"""

from __future__ import annotations

from typing import Protocol

from paceline.doctor.estimates.undrafted import AnswerTime
from paceline.doctor.probing.alternation import NotMeasured
from paceline.doctor.probing.load import Answers, ProbeLoad, hold_load
from paceline.doctor.probing.settings import ProbeSettings

_PIECE_S = 2.0
_MIN_ANSWERS = 4.0
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


def load_of(load: ProbeLoad, settings: ProbeSettings) -> Load:
    """Pieces that are long enough for some answers; else the load that was sent before.

    Raises NotMeasured if none of its answers ended.
    """
    before = _mean(load.at_full_load, settings)
    seconds = max(_PIECE_S, _MIN_ANSWERS * before.seconds)
    if seconds > _MOST_SHARE * settings.seconds:
        return PastLoad(before)
    return LoadPieces(load, settings, seconds)


def _mean(answers: Answers, settings: ProbeSettings) -> AnswerTime:
    if not answers.num:
        raise NotMeasured("no answer ended while the load was at its highest; give --seconds more")
    tokens = answers.tokens / answers.num
    return AnswerTime(answers.seconds / answers.num, tokens or settings.max_tokens)
