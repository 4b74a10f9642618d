"""The runs as arrays, and figures over repeats with how far they can be trusted.

Only complete repeats count: every comparison is between runs of the same repeat, which share their
prompts and the hour of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NUM_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """What the complete repeats yielded."""

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
    """By arm and repeat, the columns of `watch`."""
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
    """A figure over repeats: the mean with its 95 % interval, and every repeat's value."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]

    @property
    def has_interval(self) -> bool:
        return len(self.values) > 1


def estimate(values: Sequence[float] | Floats) -> Estimate:
    """Mean and percentile bootstrap over repeats; with one repeat the interval is the value.

    With five repeats such an interval is too narrow by about a tenth: read it as a hint.
    """
    array = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(0).integers(0, len(array), (_NUM_RESAMPLES, len(array)))
    low, high = np.percentile(array[draws].mean(axis=1), [2.5, 97.5])
    return Estimate(float(array.mean()), float(low), float(high), tuple(array.tolist()))


def read_runs(document: Mapping[str, Any]) -> Measured:
    """The complete repeats of a results document; ValueError when there is none."""
    plan = document["plan"]
    arms = tuple(plan["arms"])
    by_key = {(run["arm"], run["repeat"]): run for run in document["runs"]}
    repeats = sorted({repeat for _, repeat in by_key})
    complete = [r for r in repeats if all((arm, r) in by_key for arm in arms)]
    if not complete:
        raise ValueError("no repeat is complete: some arm is missing in each")
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
