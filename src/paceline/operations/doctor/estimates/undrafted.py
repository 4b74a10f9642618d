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

In a closed loop of n requests an answer of L tokens takes T seconds. With t tokens per step, these
are (L - 1) / t steps that give it tokens, e steps that only the others get tokens from, and
prompts:

    T  = ((L - 1) / t + e) steady + prompts
    T' = (L - 1 + e) u + prompts                without drafts
    gain = T' / T

e is 2: the step under way when the request arrives, and the one that computes its prompt, in which
the others draft. A request alone has only the latter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.operations.doctor.estimates.interval import Interval
from paceline.operations.doctor.readings.probe_result import MeasuredGain

MIN_ROUNDS = 6
"""Fewer say little about how rounds differ. Chosen empirically."""
_NUM_RESAMPLES = 400
_PERCENTILES = (2.5, 97.5)
_LEAST_GAIN = 0.01
_ANSWER_S = 3
"""Index of the time of an answer among the figures of a round."""
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
class AnswerTime:
    """How long answers take in a closed loop, means."""

    seconds: float
    tokens: float
    """At least 1."""
    error_s: float = 0.0
    """Standard error of `seconds`."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step of n requests, each measured once shortly after one another."""

    steady_s: float
    """With drafts, the mean over an answer."""
    lowest_s: float
    """Without drafts, at contexts like those of the load: at least this."""
    highest_s: float
    """And at most this."""


@dataclass(frozen=True, slots=True)
class StepRound:
    """Times of steps, and of answers under the load shortly before."""

    times: StepTimes
    answer: AnswerTime


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
    rounds: Sequence[StepRound], tokens_per_step: Interval, num_requests: int, how: str
) -> MeasuredGain:
    """The gain at a load of `num_requests`, from the medians of at least `MIN_ROUNDS`.

    The interval has both bounds of the step without drafts, the error of the tokens per step, and
    the percentiles of a bootstrap (95 %): over the pieces of the load, since rounds beside the same
    piece share its error, and over the rounds within each. `how` says which steps were timed.
    """
    medians = np.median([_figures(one) for one in rounds], axis=0)
    middle = _gains(medians, tokens_per_step.middle, num_requests)
    resampled = _resampled(rounds)
    lows, _ = _gains(resampled, tokens_per_step.low, num_requests)
    _, highs = _gains(resampled, tokens_per_step.high, num_requests)
    steady_s, lowest_s, highest_s, answer_s, answer_tokens = map(float, medians)
    return MeasuredGain(
        value=math.sqrt(float(middle[0] * middle[1])),
        low=float(np.percentile(lows, _PERCENTILES[0])),
        high=float(np.percentile(highs, _PERCENTILES[1])),
        num_pairs=len(rounds),
        concurrency=num_requests,
        tokens_per_s=num_requests * answer_tokens / answer_s,
        how=how,
        is_estimated=True,
        step_ms=1e3 * steady_s,
        undrafted_step_ms=(1e3 * lowest_s, 1e3 * highest_s),
    )


def _figures(one: StepRound) -> tuple[float, ...]:
    return (*astuple(one.times), one.answer.seconds, one.answer.tokens)


def _resampled(rounds: Sequence[StepRound]) -> Floats:
    """Medians of the figures in each bootstrap sample, (5, num_samples)."""
    pieces: dict[int, list[tuple[float, ...]]] = {}
    for one in rounds:
        pieces.setdefault(id(one.answer), []).append(_figures(one))
    errors = {id(one.answer): one.answer.error_s for one in rounds}
    groups = [(np.array(figures), errors[piece]) for piece, figures in pieces.items()]
    random = np.random.default_rng(0)

    def sample() -> Floats:
        parts = []
        for index in random.integers(0, len(groups), len(groups)):
            figures, error_s = groups[index]
            part = figures[random.integers(0, len(figures), len(figures))]
            part[:, _ANSWER_S] += random.normal(0.0, error_s)
            parts.append(part)
        medians: Floats = np.median(np.concatenate(parts), axis=0)
        return medians

    return np.array([sample() for _ in range(_NUM_RESAMPLES)]).T


def _gains(figures: Floats, tokens_per_step: float, num_requests: int) -> tuple[Floats, Floats]:
    """With the lowest and the highest step without drafts; `figures` is (5, ...): those of
    `StepTimes` and of `AnswerTime`."""
    steady, lowest, highest, answer_s, tokens = figures
    extra = min(num_requests, 2)
    drafted_s = (np.maximum(tokens - 1, 0) / tokens_per_step + extra) * steady
    prompts_s = np.maximum(answer_s - drafted_s, 0)
    low, high = (
        np.maximum(
            _LEAST_GAIN,
            ((tokens - 1 + extra) * step_s + prompts_s) / (drafted_s + prompts_s),
        )
        for step_s in (lowest, highest)
    )
    return low, high
