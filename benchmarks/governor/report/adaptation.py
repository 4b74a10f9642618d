"""How soon an arm adapts after a shift of the traffic, in seconds and in engine steps.

Two measures, both on the mean of all repeats, so that single answers matter less. *Near the best*:
a window of buckets, and the rest of the phase after it, reaches 95 % of the tokens of the oracle's
length in the same buckets; the prefill that every arm pays cancels. *Near itself*: a window reaches
95 % of the arm's own steady rate, the median of the second half of the phase; this includes the
prefill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.governor.report.measured import Floats, Measured

NEAR = 0.95
WINDOW_BUCKETS = 4
"""One second: in shorter windows single answers begin and end. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Adaptation after the shift into one phase; None means never within the phase."""

    phase: str
    near_best_s: float | None
    near_best_steps: float | None
    """In engine steps of the arm; None also if the server does not count steps."""
    near_itself_s: float | None
    oracle_near_itself_s: float | None
    """The same for the oracle's fixed length, which does not adapt: the share of the prefill."""
    steps_per_bucket: float | None
    """The resolution of the figures in steps: a bucket is the shortest time measured."""


def adaptations(measured: Measured, arm: str, oracle_arms: Sequence[str]) -> tuple[Adaptation, ...]:
    """One entry per phase. The first phase is a start, not a shift."""
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
    """Buckets before the first window that, with the rest of the phase, is near the best.

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
    """Buckets before the first window that reaches 95 % of the second half's median.

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
    """Engine steps between two times of a run, mean over repeats; None if not known."""
    counts = [
        float(np.interp(to_s, run["t_s"], run["steps"]))
        - float(np.interp(from_s, run["t_s"], run["steps"]))
        for run in samples
        if len(run["t_s"]) > 1
    ]
    return float(np.mean(counts)) if counts else None


def _in_s(buckets: int | None, bucket_s: float) -> float | None:
    return None if buckets is None else buckets * bucket_s
