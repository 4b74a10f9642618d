"""The concurrency that a server holds, with a 90 % interval.

The tail of the time to first token is taken per level, made non-decreasing over the levels, and
interpolated between them (both axes logarithmic); the crossing with the limit, rounded down, is the
value. The interval comes from a bootstrap: requests are drawn again within their window, every
window gets a factor of its own and all windows a common one, because a minute in windows of seconds
differs from the long run by more than its requests show. It always contains the levels between the
last that held and the first that did not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.workbench.bench.quick.levels import Window, bracket, pool, tail_s

_NUM_RESAMPLES = 200
_WINDOW_NOISE = 0.1
_COMMON_NOISE = 0.05
"""Standard deviations of the logarithms of the factors; chosen empirically."""


@dataclass(frozen=True, slots=True)
class HeldConcurrency:
    """Whole numbers of concurrent requests; `value` is 0 if even one alone misses the limit."""

    value: int
    low: int
    high: int | None
    """None if the highest level tried holds: then `value` is a lower bound."""


def estimate_held(
    windows: Sequence[Window], limit_s: float, seed: int = 0
) -> HeldConcurrency | None:
    """The value and its interval; None without a window."""
    if not windows:
        return None
    holding, failing = bracket(windows, limit_s)
    rng = np.random.default_rng(seed)
    arrays = [(window.level, np.asarray(window.ttfts_s, dtype=float)) for window in windows]
    crossings = [_crossing(_resample(arrays, rng), limit_s) for _ in range(_NUM_RESAMPLES)]
    lowest, highest = (float(q) for q in np.quantile(crossings, (0.05, 0.95), method="nearest"))
    low = min(holding, math.floor(lowest))
    if failing is None:
        return HeldConcurrency(holding, low, None)
    value = max(holding, math.floor(_crossing(_tails(windows), limit_s)))
    high = max(failing - 1, math.floor(min(highest, 2 * failing)))
    return HeldConcurrency(value, min(low, value), max(high, value))


def _tails(windows: Sequence[Window]) -> dict[int, float]:
    return {level: tail_s(ttfts) for level, ttfts in pool(windows).items()}


def _resample(
    arrays: Sequence[tuple[int, npt.NDArray[np.float64]]], rng: np.random.Generator
) -> dict[int, float]:
    """The tails of one bootstrap sample of the windows' levels and times to first token."""
    drawn: dict[int, list[npt.NDArray[np.float64]]] = {}
    common = rng.normal(0, _COMMON_NOISE)
    for level, ttfts in arrays:
        factor = np.exp(common + rng.normal(0, _WINDOW_NOISE))
        again = ttfts[rng.integers(0, len(ttfts), len(ttfts))] if len(ttfts) else ttfts
        drawn.setdefault(level, []).append(again * factor)
    return {level: tail_s(np.concatenate(parts)) for level, parts in drawn.items()}


def _crossing(tails: Mapping[int, float], limit_s: float) -> float:
    """Where the tail passes the limit; the highest level if it does not, below 1 if it always does.

    >>> _crossing({1: 0.25, 4: 1.0, 16: 4.0}, 2.0)
    8.0
    """
    before: tuple[int, float] | None = None
    for level in sorted(tails):
        tail = max(tails[level], before[1] if before is not None else 0.0)
        if tail > limit_s:
            if before is None:
                return 0.0
            if math.isinf(tail) or tail <= before[1]:
                return float(before[0])
            share = math.log(limit_s / before[1]) / math.log(tail / before[1])
            return float(before[0] * (level / before[0]) ** share)
        before = (level, tail)
    assert before is not None
    return float(before[0])
