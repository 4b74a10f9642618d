"""`Interval`: a range that an unknown positive figure lies in."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """0 < low <= high."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ValueError(f"{self.low} to {self.high} is no positive interval")

    @property
    def middle(self) -> float:
        """The geometric mean: as many times the low end as the high end is times it."""
        return math.sqrt(self.low * self.high)
