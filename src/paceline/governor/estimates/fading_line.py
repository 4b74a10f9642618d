"""A fitted cost with a fixed part and a part proportional to size.

A line through (size, cost) by least squares; older points fade by `keep` with each new one, and
neither part is negative. While all sizes are alike, the line goes through the origin, which gives
the highest possible estimate for a larger size. Kept as running means and moments (Welford's
recurrence, weighted).
"""

from __future__ import annotations

_LEAST_SPREAD = 0.01
"""Least sum of squared deviations of the sizes, relative to their squared mean, for a slope of its
own. Chosen empirically."""


class FadingLine:
    """Learns cost by size from points; 0 everywhere before the first point.

    >>> line = FadingLine(keep=0.95)
    >>> for size in (64.0, 640.0, 64.0):
    ...     line.add(size, 1.0 + 0.5 * size)
    >>> round(line.slope, 6), round(line.at(100.0), 6)
    (0.5, 51.0)
    """

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._weight = self._size = self._cost = self._size_moment = self._joint_moment = 0.0
        self._fixed = 0.0
        self.slope = 0.0
        """Cost per unit of size, not negative. Read only."""

    def add(self, size: float, cost: float) -> None:
        """Learn from one point; `size` is positive."""
        self._weight = self._keep * self._weight + 1.0
        away = size - self._size
        self._size += away / self._weight
        cost_away = cost - self._cost
        self._cost += cost_away / self._weight
        self._size_moment = self._keep * self._size_moment + away * (size - self._size)
        self._joint_moment = self._keep * self._joint_moment + away * (cost - self._cost)
        through_origin = self._cost / self._size
        slope = through_origin
        if self._size_moment > _LEAST_SPREAD * self._size * self._size:
            slope = self._joint_moment / self._size_moment
        self.slope = min(max(slope, 0.0), through_origin)
        self._fixed = self._cost - self.slope * self._size

    def at(self, size: float) -> float:
        """The expected cost of this size."""
        return self._fixed + self.slope * size
