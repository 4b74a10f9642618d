"""What drafts gain on a server that always drafts, from steps that it made without drafts.

vLLM skips the drafts of a batch whose longest request has no room for them: at the end of the
context. There, and only there, the target's own step is seen. `StepRound` has the four times.

The first step after a prompt is longer than later ones, by `short - steady`; this is subtracted
from `full` and `end` too. The step without drafts at contexts like those of the load, u, is then
bounded:

- u is at most `end`, because a longer context never makes a step shorter.
- u is taken to be at least `end * steady / full`: the context makes a step with drafts slower by at
  least the factor by which it makes one without drafts slower, because the draft model and every
  draft token read the KV cache too. It fails for drafters that read hardly any KV cache.

A closed loop of n requests at R tokens/s spends n / R seconds of a request per token: prompts,
waiting and steps. With t tokens per step, drafts change the part of the steps from u to steady / t:

    gain = 1 + (u - steady / t) R / n
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.doctor.estimates.interval import Interval
from paceline.doctor.readings.probe_result import MeasuredGain

MIN_ROUNDS = 6
"""Fewer say little about how rounds differ. Chosen empirically."""
_NUM_RESAMPLES = 400
_PERCENTILES = (2.5, 97.5)
_LEAST_GAIN = 0.01
_LEAST_FRACTION = 0.1
"""Of a step: noise can make the differences negative."""
HOW = (
    "the tokens of a step are counted; steps with drafts and, at the end of the context, without "
    "them were timed; a long context is taken to slow steps with drafts by at least the same factor"
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepRound:
    """Seconds of a step of n requests, each measured once shortly after one another."""

    steady_s: float
    """With drafts, the mean over an answer, at contexts like those of the load."""
    short_s: float
    """The first step after such a prompt."""
    full_s: float
    """The first step after a prompt that leaves room for drafts, but hardly more."""
    end_s: float
    """The first step after a prompt that leaves no room for drafts: without drafts."""


def infer_gain(
    rounds: Sequence[StepRound], tokens_per_step: Interval, num_requests: int, tokens_per_s: float
) -> MeasuredGain:
    """The gain at this load, from the medians of at least `MIN_ROUNDS`.

    The interval has both bounds of the step without drafts, the error of the tokens per step, and
    the percentiles of a bootstrap over the rounds (95 %). `tokens_per_s` is that of the load with
    `num_requests` in flight.
    """
    times = np.array([astuple(one) for one in rounds])
    per_token_s = num_requests / tokens_per_s
    middle = _gains(np.median(times, axis=0), tokens_per_step.middle, per_token_s)
    random = np.random.default_rng(0)
    drawn = times[random.integers(0, len(times), (_NUM_RESAMPLES, len(times)))]
    resampled = np.median(drawn, axis=1).T
    lows, _ = _gains(resampled, tokens_per_step.low, per_token_s)
    _, highs = _gains(resampled, tokens_per_step.high, per_token_s)
    return MeasuredGain(
        value=math.sqrt(float(middle[0] * middle[1])),
        low=float(np.percentile(lows, _PERCENTILES[0])),
        high=float(np.percentile(highs, _PERCENTILES[1])),
        num_pairs=len(rounds),
        concurrency=num_requests,
        tokens_per_s=tokens_per_s,
        how=HOW,
        is_estimated=True,
    )


def undrafted_s(times: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest step without drafts; `times` is (4, ...) as in `StepRound`.

    >>> low, high = undrafted_s(np.array([8.0, 10.0, 18.0, 6.0]))
    >>> float(low), float(high)
    (2.0, 4.0)
    """
    steady, short, full, end = times
    extra = np.maximum(0.0, short - steady)
    at_end = np.maximum(end - extra, _LEAST_FRACTION * end)
    other = at_end * steady / np.maximum(full - extra, _LEAST_FRACTION * full)
    return np.minimum(other, at_end), np.maximum(other, at_end)


def _gains(times: Floats, tokens_per_step: float, per_token_s: float) -> tuple[Floats, Floats]:
    low, high = (
        np.maximum(_LEAST_GAIN, 1 + (step_s - times[0] / tokens_per_step) / per_token_s)
        for step_s in undrafted_s(times)
    )
    return low, high
