"""What drafts gain on a server that always drafts, from steps that it made without drafts.

vLLM skips the drafts of a batch whose longest request has no room for them: at the end of the
context. `StepRound` has the bounds of such a step at contexts like those of the load, from one of
two sources.

- `bounds_from_mixed_batches`, where vLLM then verifies nothing: one request of n at the end of its
  context is enough. Each such request makes the step longer by the same time, so the steps with one
  and with n of them give the step with none. Their first steps are longer than later ones; only
  what later steps add is used.
- `bounds_from_end`, where vLLM then verifies zeros, which it cannot at the last token of the
  context, or where n is 1. All n requests are at the end. Their step u' after c' tokens of context
  bounds the one after c tokens, because a step takes a time for each token of context and a fixed
  one that may be anything: u' c / c' <= u <= u'. The first step after a prompt is longer than later
  ones, by what is seen in steps with drafts; this is subtracted.

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
HOW_FROM_MIXED_BATCHES = (
    "the tokens of a step are counted; steps with drafts, and steps without them beside a request "
    "at the end of its context, were timed"
)
HOW_FROM_END = (
    "the tokens of a step are counted; steps with drafts, and steps without them at the end of the "
    "context, were timed; at the workload's context they take between a part in proportion to the "
    "context and all of that"
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepRound:
    """Seconds of a step of n requests, each measured once shortly after one another."""

    steady_s: float
    """With drafts, the mean over an answer."""
    lowest_s: float
    """Without drafts, at contexts like those of the load: at least this."""
    highest_s: float
    """And at most this."""


@dataclass(frozen=True, slots=True)
class StepTotals:
    """Seconds of the first steps without drafts after a prompt."""

    few_s: float
    num_few: int
    many_s: float
    """Of the same steps and more."""
    num_many: int

    @property
    def later_s(self) -> float:
        """Mean of the steps that only the many have."""
        return (self.many_s - self.few_s) / (self.num_many - self.num_few)


def bounds_from_mixed_batches(
    one_at_end: StepTotals, all_at_end: StepTotals, num_requests: int
) -> tuple[float, float]:
    """The step with no request of `num_requests` at the end of its context; both bounds are equal.

    `num_requests` is 2 or more: one request alone is always the one at its end. Negative context
    costs, which only noise shows, count as none.
    """
    mean_s = one_at_end.many_s / one_at_end.num_many
    one_s = max(one_at_end.later_s, _LEAST_FRACTION * mean_s)
    each_s = max(0.0, all_at_end.later_s - one_s) / (num_requests - 1)
    none_s = max(one_s - each_s, _LEAST_FRACTION * one_s)
    return none_s, none_s


def bounds_from_end(end_s: float, extra_s: float, context_fraction: float) -> tuple[float, float]:
    """From the step at the end of the context, with `extra_s` of a first step.

    `context_fraction`: the load's context over the longest one.

    >>> bounds_from_end(8.0, 2.0, 0.25)
    (1.5, 6.0)
    """
    highest_s = max(end_s - max(0.0, extra_s), _LEAST_FRACTION * end_s)
    return highest_s * context_fraction, highest_s


def infer_gain(
    rounds: Sequence[StepRound],
    tokens_per_step: Interval,
    num_requests: int,
    tokens_per_s: float,
    how: str,
) -> MeasuredGain:
    """The gain at this load, from the medians of at least `MIN_ROUNDS`.

    The interval has both bounds of the step without drafts, the error of the tokens per step, and
    the percentiles of a bootstrap over the rounds (95 %). `tokens_per_s` is that of the load with
    `num_requests` in flight; `how` says which steps were timed.
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
        how=how,
        is_estimated=True,
    )


def _gains(times: Floats, tokens_per_step: float, per_token_s: float) -> tuple[Floats, Floats]:
    """With the lowest and the highest step without drafts; `times` is (3, ...) as `StepRound`."""
    steady, lowest, highest = times
    low, high = (
        np.maximum(_LEAST_GAIN, 1 + (step_s - steady / tokens_per_step) / per_token_s)
        for step_s in (lowest, highest)
    )
    return low, high
