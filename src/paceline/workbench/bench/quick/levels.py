"""Choose the next concurrency to try: a geometric ramp, bisection, then repeats at the boundary.

A level holds if the time to first token that nine of ten requests stay within is at most the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PERCENTILE = 90
_FAR_FRACTION = 1 / 8
"""Below this part of the limit the ramp goes up by 4, else by 2."""
_RESOLUTION_FRACTION = 1 / 8
"""Bisection stops at this relative distance; windows of seconds cannot tell closer levels apart.
Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one concurrency gave in one window."""

    level: int
    ttfts_s: tuple[float, ...]
    """Of every request whose verdict is known; inf if it failed, or had no token in time."""
    output_tokens_per_s: float | None
    num_errors: int
    answer_s: float | None
    """Median time of a whole answer; None if none ended within the window."""


def tail_s(ttfts_s: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """The time to first token that nine of ten requests stay within; inf without requests.

    >>> tail_s([0.1] * 9 + [5.0])
    0.1
    """
    if len(ttfts_s) == 0:
        return math.inf
    rank = max(0, math.ceil(PERCENTILE / 100 * len(ttfts_s)) - 1)
    return float(np.partition(np.asarray(ttfts_s), rank)[rank])


def pool(windows: Sequence[Window]) -> dict[int, list[float]]:
    """The times to first token of all windows of each level, levels ascending."""
    pooled: dict[int, list[float]] = {}
    for window in sorted(windows, key=lambda window: window.level):
        pooled.setdefault(window.level, []).extend(window.ttfts_s)
    return pooled


def bracket(windows: Sequence[Window], limit_s: float) -> tuple[int, int | None]:
    """The highest level below all failing ones that holds, and the lowest failing one.

    (0, …) if no level holds, (…, None) if none fails.
    """
    pooled = pool(windows)
    failing = min((n for n, ttfts in pooled.items() if tail_s(ttfts) > limit_s), default=None)
    holding = [n for n in pooled if failing is None or n < failing]
    return max(holding, default=0), failing


def next_level(windows: Sequence[Window], limit_s: float, max_level: int) -> int | None:
    """The next level; None if the highest allowed one holds or a single request fails."""
    if not windows:
        return 1
    holding, failing = bracket(windows, limit_s)
    if failing is None:
        if holding >= max_level:
            return None
        is_far = tail_s(pool(windows)[holding]) < _FAR_FRACTION * limit_s
        return min(max_level, holding * (4 if is_far else 2))
    if failing == 1:
        return None
    if failing - holding > max(1, int(_RESOLUTION_FRACTION * failing)):
        # sqrt(2 * 3) rounds to 2: without the bounds bisection could repeat an end.
        return min(failing - 1, max(holding + 1, round(math.sqrt(max(holding, 1) * failing))))
    counts = {n: sum(w.level == n for w in windows) for n in (holding, failing) if n > 0}
    return min(counts, key=lambda n: (counts[n], n))
