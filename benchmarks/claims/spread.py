"""A figure over repeats: middle, lowest, highest and their number."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable


class Spread:
    """The values of one figure, one per repeat.

    >>> gain = Spread([1.10, 1.25]).gain_percent()
    >>> f"{gain.mean:+.1f} % ({gain.lowest:.0f} to {gain.highest:.0f}, n = {gain.n})"
    '+17.5 % (10 to 25, n = 2)'
    """

    def __init__(self, values: Iterable[float]) -> None:
        """Raises `ValueError` without values."""
        self.values = tuple(float(value) for value in values)
        if not self.values:
            raise ValueError("values is empty; a spread needs at least one value")

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def lowest(self) -> float:
        return min(self.values)

    @property
    def highest(self) -> float:
        return max(self.values)

    def map(self, function: Callable[[float], float]) -> Spread:
        """The spread of the function's values."""
        return Spread(map(function, self.values))

    def percent(self) -> Spread:
        """Ratios as percentages."""
        return self.map(lambda ratio: 100 * ratio)

    def gain_percent(self) -> Spread:
        """Ratios as changes in percent: 1.2 gives 20."""
        return self.map(lambda ratio: 100 * (ratio - 1))
