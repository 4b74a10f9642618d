"""The noise of log-probabilities: by how much two computations of the same ones differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_HIGH = 0.99
TYPICAL_NATS = {"float32": 1e-5, "float16": 0.01, "bfloat16": 0.05}
"""Root mean square where it cannot be measured, by number format. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Sizes of the differences, in nats."""

    median_nats: float
    high_nats: float
    """Their 99 % quantile; the largest of fewer than 100."""
    rms_nats: float


def measure_noise(differences: Sequence[float]) -> Noise | None:
    """The noise of these absolute differences; None without any."""
    if not differences:
        return None
    ordered = sorted(differences)
    return Noise(
        statistics.median(ordered),
        ordered[min(len(ordered) - 1, int(_HIGH * len(ordered)))],
        math.sqrt(statistics.fmean(one * one for one in ordered)),
    )
