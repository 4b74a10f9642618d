"""The runs as arrays, and estimates over repeats.

Only complete repeats count: every comparison is between runs of the same repeat, which share their
prompts and the state of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of the complete repeats."""

    arms: tuple[str, ...]
    phases: tuple[str, ...]
    seconds: Floats
    """(num_phases,)"""
    concurrency: tuple[int, ...]
    """(num_phases,)"""
    tokens: Mapping[str, Floats]
    """By arm, (num_repeats, num_phases)."""
    bucket_s: float
    bucket_tokens: Mapping[str, Floats]
    """By arm, (num_repeats, num_phases, num_buckets)."""
    governor: Mapping[str, Sequence[Mapping[str, Sequence[float]]]]
    """By arm and repeat, the columns of `trace.watch`."""
    inter_chunk_p99_ms: Mapping[str, Floats]
    """By arm, (num_repeats, num_phases); NaN where no answer had two chunks."""
    num_errors: int

    @property
    def num_repeats(self) -> int:
        return len(next(iter(self.tokens.values())))

    @property
    def fixed_arms(self) -> tuple[str, ...]:
        return tuple(arm for arm in self.arms if arm.startswith("K="))

    def rates(self, arm: str) -> Floats:
        """Tokens per second, (num_repeats, num_phases)."""
        return self.tokens[arm] / self.seconds


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over repeats: the mean, and every repeat's value."""

    mean: float
    values: tuple[float, ...]

    @property
    def lowest(self) -> float:
        return min(self.values)

    @property
    def highest(self) -> float:
        return max(self.values)

    @property
    def has_range(self) -> bool:
        return len(self.values) > 1


def estimate(values: Sequence[float] | Floats) -> Estimate:
    """The mean over repeats with every value; the range is the whole statement of uncertainty.

    An interval from a handful of repeats would claim more than they can show.
    """
    array = np.asarray(values, dtype=np.float64)
    return Estimate(float(array.mean()), tuple(array.tolist()))


def read_runs(document: Mapping[str, Any]) -> Measured:
    """The complete repeats of a result document; ValueError when there is none."""
    plan = document["plan"]
    arms = tuple(plan["arms"])
    by_key = {(run["arm"], run["repeat"]): run for run in document["runs"]}
    repeats = sorted({repeat for _, repeat in by_key})
    complete = [r for r in repeats if all((arm, r) in by_key for arm in arms)]
    if not complete:
        raise ValueError("no repeat is complete: every repeat lacks the run of some arm")
    runs = {arm: [by_key[arm, repeat] for repeat in complete] for arm in arms}
    phases = runs[arms[0]][0]["phases"]

    def gather(key: str) -> dict[str, Floats]:
        return {
            arm: np.asarray([[p[key] for p in run["phases"]] for run in mine], dtype=np.float64)
            for arm, mine in runs.items()
        }

    return Measured(
        arms=arms,
        phases=tuple(phase["name"] for phase in phases),
        seconds=np.asarray([phase["seconds"] for phase in phases], dtype=np.float64),
        concurrency=tuple(phase["concurrency"] for phase in plan["phases"]),
        tokens=gather("tokens"),
        bucket_s=plan["bucket_s"],
        bucket_tokens=gather("bucket_tokens"),
        inter_chunk_p99_ms=gather("inter_chunk_p99_ms"),
        governor={arm: [run["governor"] for run in mine] for arm, mine in runs.items()},
        num_errors=int(sum(errors.sum() for errors in gather("num_errors").values())),
    )
