"""Linear axes: round tick values, and the place of a value on a line of pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high` on pixels from `start` to `end`; `end` may be the smaller one."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """The pixel of a value, rounded to a tenth."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """The round values between the ends."""
        return round_ticks(self.low, self.high)


def round_ticks(low: float, high: float, max_ticks: int = 7) -> list[float]:
    """At most `max_ticks` values at multiples of 1, 2 or 5 times a power of ten.

    >>> round_ticks(0, 9.3)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    >>> round_ticks(-0.04, 0.07)
    [-0.04, -0.02, 0.0, 0.02, 0.04, 0.06]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / max_ticks))
    for factor in (1, 2, 5, 10):
        first = math.ceil(low / (step * factor) - 1e-9)
        last = math.floor(high / (step * factor) + 1e-9)
        if last - first + 1 <= max_ticks:
            break
    return [float(f"{n * step * factor:.10g}") + 0.0 for n in range(first, last + 1)]


def padded(values: list[float], *, with_zero: bool, padding: float = 0.08) -> tuple[float, float]:
    """Ends of an axis that holds the values with room at both ends.

    >>> padded([10.0, 20.0], with_zero=True, padding=0.1)
    (0.0, 22.0)
    """
    low, high = min(values), max(values)
    if with_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = padding * ((high - low) or abs(high) or 1.0)
    return (low if with_zero and low == 0 else low - room), (
        high if with_zero and high == 0 else high + room
    )
