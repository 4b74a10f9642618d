"""What does something cost that has a fixed part and one in proportion to its size?

A line through (size, cost) by least squares, older points fading by `keep` with each new one;
neither part is negative. While all sizes were alike, it goes through the origin: a larger one then
looks as dear as it can be. Kept as running means and moments (Welford's recurrence, weighted).
"""

from __future__ import annotations

_LEAST_SPREAD = 0.01
"""Of the squared mean size, by which sizes must have varied. Chosen by hand."""


class FadingLine:
    """Points in, cost out; 0 everywhere before the first.

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
        """Cost of one more, not negative. Read only."""

    def add(self, size: float, cost: float) -> None:
        """Learn from one; `size` is positive."""
        self._weight = self._keep * self._weight + 1.0
        away = size - self._size
        self._size += away / self._weight
        dearer = cost - self._cost
        self._cost += dearer / self._weight
        self._size_moment = self._keep * self._size_moment + away * (size - self._size)
        self._joint_moment = self._keep * self._joint_moment + away * (cost - self._cost)
        through_origin = self._cost / self._size
        slope = through_origin
        if self._size_moment > _LEAST_SPREAD * self._size * self._size:
            slope = self._joint_moment / self._size_moment
        self.slope = min(max(slope, 0.0), through_origin)
        self._fixed = self._cost - self.slope * self._size

    def at(self, size: float) -> float:
        """The cost expected of this size."""
        return self._fixed + self.slope * size
