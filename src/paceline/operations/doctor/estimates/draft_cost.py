"""How much longer drafts make a step, from step times at several loads.

A step with K draft tokens for each of n requests takes

    T(n) = a + K d + n (q + K v)

with the draft pass d and the verification v of one draft token. An engine that always drafts shows
the slope q + K v over n and the step time T, not their parts. Two assumptions bound the parts:

- v is between `_VERIFY_SHARE` and 1 times the slope / (1 + K). At 1, the request's own token q
  costs as much as a draft token; below, q also reads the KV cache. It fails for long contexts with
  short drafts, where q is many times v.
- d is at most `_MAX_PASS_SHARE` of the step without drafts.

Then T without drafts is T(n) - n K v - K d, and the slowdown c = T(n) / that. Without points that
show the slope, a draft token adds between `_MIN_TOKEN_SHARE` of a step and a whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.operations.doctor.estimates.correlated_fit import MAX_VALUES, design_of
from paceline.operations.doctor.estimates.drafting import Drafting
from paceline.operations.doctor.estimates.interval import Interval
from paceline.operations.doctor.estimates.step_points import StepPoint, pooled

_VERIFY_SHARE = 0.4
"""Derived: Qwen2.5-72B on 8 H100 with contexts of 8,000 tokens and K = 2 has v = 0.4 slope / 3
(roofline of `policy_simulator/machines/profiles/72b-tp8-h100.toml`); K = 8 has 0.7."""
_MAX_PASS_SHARE = 0.25
"""Measured: 1.39 ms of a step of 5.63 ms, the largest of the profiles of measured machines
(`policy_simulator/machines/profiles/cpu-small.toml`)."""
_MIN_TOKEN_SHARE = 0.005
"""Chosen empirically: n-gram drafts on an idle GPU, where verification hides in reading weights."""
_MIN_POINTS = 5
_MIN_LOAD_RATIO = 1.5
"""Between the largest and the smallest load: below, noise decides the slope. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Step time with drafts over that without, at the observed load."""

    factor: Interval
    draft_length: float
    from_slope: bool
    """Whether step times at several loads bound it."""

    @property
    def token_share(self) -> Interval:
        """Of a step without drafts that each draft token adds."""
        return Interval(
            (self.factor.low - 1) / self.draft_length, (self.factor.high - 1) / self.draft_length
        )

    @property
    def assumption(self) -> str:
        if self.from_slope:
            return (
                "from the step times at several loads; verifying a draft token costs 0.4 to 1 "
                "times the average token of a step, a draft pass at most a quarter of a step"
            )
        return (
            f"each draft token adds {100 * _MIN_TOKEN_SHARE:g} % to 100 % of a step, because the "
            "load did not change enough to show more"
        )


def slowdown_of(drafting: Drafting) -> Slowdown:
    """The interval of the slowdown."""
    length = drafting.draft_length
    least = 1 + _MIN_TOKEN_SHARE * length
    fitted = _fit(drafting.points)
    if fitted is None:
        return Slowdown(Interval(least, 1 + length), length, from_slope=False)
    slope, at_no_load_s = fitted
    num_requests = drafting.num_requests
    step_s = at_no_load_s + slope.middle * num_requests
    most_verify_s = slope.high / (1 + length)
    least_verify_s = _VERIFY_SHARE * slope.low / (1 + length)
    low = step_s / (step_s - num_requests * length * least_verify_s)
    left_s = max(step_s / (1 + length), step_s - num_requests * length * most_verify_s)
    high = (1 + _MAX_PASS_SHARE * length) * step_s / left_s
    low = max(low, least)
    return Slowdown(Interval(low, max(low, high)), length, from_slope=True)


def _fit(points: Sequence[StepPoint]) -> tuple[Interval, float] | None:
    """Slope of the step time over the number of requests (95 % interval), and its value at 0.

    The prompt tokens of a step are a second variable, so that prefill is not taken for load. The
    errors of neighbouring points may be correlated. None if the points do not show a rising step
    time.
    """
    usable = [point for point in points if point.prompt_tokens_per_step is not None]
    usable = pooled(usable, MAX_VALUES)
    loads = np.array([point.num_requests for point in usable])
    if len(usable) < _MIN_POINTS or loads.max() < _MIN_LOAD_RATIO * max(loads.min(), 1e-9):
        return None
    prompts = np.array([point.prompt_tokens_per_step or 0.0 for point in usable])
    columns = [np.ones(len(usable)), loads]
    if np.ptp(prompts) > 0:
        columns.append(prompts)
    roots = np.sqrt([point.weight for point in usable])
    matrix = np.stack(columns, axis=1) * roots[:, None]
    times = np.array([point.step_s for point in usable]) * roots
    design = design_of(matrix)
    if design is None:
        return None
    fitted = design.fit(times)
    start_s, slope, *_ = map(float, fitted.coefficients)
    margin = float(fitted.margins[1])
    if slope - margin <= 0 or start_s < 0:
        return None
    return Interval(slope - margin, slope + margin), start_s
