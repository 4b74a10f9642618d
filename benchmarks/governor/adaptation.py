"""How soon after a shift is an arm where it should be?

Two answers, both from the mean of all repeats, so that single answers matter less. *Near the
best*: a window of buckets yields 95 % of what the oracle's length yielded in the same buckets, and
so does all that follows; the prefill that every arm pays cancels. *Near itself*: a window yields
95 % of the arm's own steady rate, the median of the second half of the phase; here the prefill
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.governor.measured import Floats, Measured

NEAR = 0.95
WINDOW_BUCKETS = 4
"""One second: shorter windows see single answers begin and end. Chosen by hand."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """After the shift into one phase; None for never within it."""

    phase: str
    near_best_s: float | None
    near_best_steps: float | None
    """The arm's own engine steps; None also where the server does not count them."""
    near_itself_s: float | None
    oracle_near_itself_s: float | None
    """The same of the oracle's fixed length, which has nothing to adapt: the prefill's share."""
    steps_per_bucket: float | None
    """How finely steps can be told: a bucket is the smallest time seen."""


def adaptations(measured: Measured, arm: str, oracle_arms: Sequence[str]) -> tuple[Adaptation, ...]:
    """One per phase. The first is a start rather than a shift."""
    found = []
    for number, phase in enumerate(measured.phases):
        mine = measured.bucket_tokens[arm][:, number].mean(axis=0)
        best = measured.bucket_tokens[oracle_arms[number]][:, number].mean(axis=0)
        near_best = buckets_to_near_best(mine, best)
        start_s = float(measured.seconds[:number].sum())
        end_s = start_s + float(measured.seconds[number])
        steps = num_steps(measured.governor[arm], start_s, end_s)
        in_s = None if near_best is None else near_best * measured.bucket_s
        found.append(
            Adaptation(
                phase=phase,
                near_best_s=in_s,
                near_best_steps=(
                    None
                    if in_s is None or steps is None
                    else num_steps(measured.governor[arm], start_s, start_s + in_s)
                ),
                near_itself_s=_in_s(buckets_to_near_itself(mine), measured.bucket_s),
                oracle_near_itself_s=_in_s(buckets_to_near_itself(best), measured.bucket_s),
                steps_per_bucket=None if steps is None else steps / len(mine),
            )
        )
    return tuple(found)


def buckets_to_near_best(mine: Floats, best: Floats) -> int | None:
    """Buckets before the first window that is near the best with all that follows.

    >>> buckets_to_near_best(np.asarray([0.0] * 3 + [9.0] * 9), np.asarray([9.0] * 12))
    3
    """
    width = min(WINDOW_BUCKETS, len(mine))
    for start in range(len(mine) - width + 1):
        window = slice(start, start + width)
        is_near = mine[window].sum() >= NEAR * best[window].sum()
        if is_near and mine[start:].sum() >= NEAR * best[start:].sum():
            return start
    return None


def buckets_to_near_itself(mine: Floats) -> int | None:
    """Buckets before the first window at 95 % of the second half's median.

    >>> buckets_to_near_itself(np.asarray([0.0] * 3 + [9.0] * 9))
    3
    """
    steady = float(np.median(mine[len(mine) // 2 :]))
    width = min(WINDOW_BUCKETS, len(mine))
    for start in range(len(mine) - width + 1):
        if mine[start : start + width].mean() >= NEAR * steady:
            return start
    return None


def num_steps(
    samples: Sequence[Mapping[str, Sequence[float]]], from_s: float, to_s: float
) -> float | None:
    """Engine steps between two times of a run, mean over repeats; None when they are not known."""
    counts = [
        float(np.interp(to_s, run["t_s"], run["steps"]))
        - float(np.interp(from_s, run["t_s"], run["steps"]))
        for run in samples
        if len(run["t_s"]) > 1
    ]
    return float(np.mean(counts)) if counts else None


def _in_s(buckets: int | None, bucket_s: float) -> float | None:
    return None if buckets is None else buckets * bucket_s
