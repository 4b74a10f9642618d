"""Adaptation lag: how long throughput takes to settle after traffic changes.

The level of a phase is its throughput over its second half. Windows of `window_s` slide over the
first half in steps of a fifth of their length. The lag is the start of the first window from which
on every window stays within the tolerance of the level, counted from the phase's start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paceline.foundation.results.series import Floats, TokenArrivals

STEPS_PER_WINDOW = 5
MIN_WINDOWS_PER_HALF = 2
"""With fewer the first half of a phase has too few windows to show a change."""


@dataclass(frozen=True, slots=True)
class AdaptationRule:
    """What counts as settled."""

    window_s: float = 5.0
    """Chosen: longer than the gaps between chunks, shorter than a phase."""
    tolerance_fraction: float = 0.1
    """Of the level."""

    def __post_init__(self) -> None:
        if not self.window_s > 0:
            raise ValueError(f"window_s is {self.window_s}; it must be above 0")
        if not 0 < self.tolerance_fraction < 1:
            raise ValueError(
                f"tolerance_fraction is {self.tolerance_fraction}; it must be between 0 and 1"
            )


@dataclass(frozen=True, slots=True)
class Adaptation:
    """The settling of one phase."""

    lag_s: float | None
    """None if it is unknown; `note` says why."""
    level_tokens_per_s: float | None
    """Output tokens per second over the second half of the phase."""
    window_s: float
    tolerance_fraction: float
    note: str | None


def adaptation_lag(
    arrivals: TokenArrivals, start_s: float, end_s: float, rule: AdaptationRule
) -> Adaptation:
    """The lag of the phase [start_s, end_s)."""
    window_s, tolerance = rule.window_s, rule.tolerance_fraction
    middle_s = (start_s + end_s) / 2
    if middle_s - start_s < MIN_WINDOWS_PER_HALF * window_s:
        least_s = 2 * MIN_WINDOWS_PER_HALF * window_s
        note = f"the phase is too short: windows of {window_s:g} s need at least {least_s:g} s"
        return Adaptation(None, None, window_s, tolerance, note)
    level = arrivals.tokens_between(middle_s, end_s) / (end_s - middle_s)
    if level <= 0:
        note = "no tokens arrived in the second half of the phase"
        return Adaptation(None, level, window_s, tolerance, note)
    step_s = window_s / STEPS_PER_WINDOW
    num_steps = int((middle_s - window_s - start_s) / step_s + 1e-9) + 1
    starts_s: Floats = start_s + step_s * np.arange(num_steps, dtype=np.float64)
    tokens = arrivals.tokens_before(starts_s + window_s) - arrivals.tokens_before(starts_s)
    is_settled = np.abs(tokens / window_s - level) <= tolerance * level
    unsettled = np.flatnonzero(~is_settled)
    if not len(unsettled):
        return Adaptation(0.0, level, window_s, tolerance, None)
    first = int(unsettled[-1]) + 1
    if first == num_steps:
        note = (
            f"throughput does not stay within {tolerance:.0%} of its later level by the middle of "
            "the phase; it settles later, or varies by more than that"
        )
        return Adaptation(None, level, window_s, tolerance, note)
    return Adaptation(float(first * step_s), level, window_s, tolerance, None)
