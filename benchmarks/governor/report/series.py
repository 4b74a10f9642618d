"""The curves of the plots as numbers: tokens over time, regret, accepted fractions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.governor.report.analysis import Findings
from benchmarks.governor.report.measured import Floats, Measured

Points = list[tuple[float, float]]


def tokens_by_bucket(measured: Measured, arms: Sequence[str]) -> Floats:
    """Tokens by bucket over the whole trace, mean of repeats; phase i is taken from `arms[i]`."""
    return np.concatenate(
        [
            measured.bucket_tokens[arms[number]][:, number].mean(axis=0)
            for number in range(len(measured.phases))
        ]
    )


def regret(measured: Measured, findings: Findings, arm: str) -> Floats:
    """Tokens that the arm has produced fewer than the oracle so far, (num_buckets + 1,)."""
    oracle = tokens_by_bucket(measured, findings.oracle_arms)
    own = tokens_by_bucket(measured, [arm] * len(measured.phases))
    return np.concatenate(([0.0], np.cumsum(oracle - own)))


def accepted_stretches(samples: Mapping[str, Sequence[float]]) -> Iterator[Points]:
    """Points (seconds, accepted fraction since the previous sample) of one run.

    A stretch ends where nothing was drafted between two samples.
    """
    times_s, drafted = samples["t_s"], samples["drafted_tokens"]
    accepted = samples["accepted_tokens"]
    stretch: Points = []
    for index in range(1, len(times_s)):
        num_drafted = drafted[index] - drafted[index - 1]
        if num_drafted > 0:
            fraction = (accepted[index] - accepted[index - 1]) / num_drafted
            stretch.append((times_s[index], fraction))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch
