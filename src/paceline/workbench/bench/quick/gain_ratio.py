"""How much faster speculation makes a server, from pairs of blocks with and without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeculationGain:
    """Output tokens/s with speculation over those without, at one concurrency."""

    gain: float | None
    """Geometric mean over the pairs; None where unknown."""
    low: float | None
    """Of the lowest pair."""
    high: float | None
    pairs: tuple[float, ...]
    concurrency: int | None
    reason: str | None
    """Why the gain is unknown."""


def unknown_gain(reason: str) -> SpeculationGain:
    return SpeculationGain(None, None, None, (), None, reason)


def gain_of_pairs(pairs: Sequence[tuple[float, float]], concurrency: int) -> SpeculationGain:
    """The gain from pairs of (with, without) in output tokens/s.

    >>> gain_of_pairs([(20.0, 10.0), (32.0, 4.0)], 1).gain
    4.0
    """
    ratios = [with_it / without for with_it, without in pairs if without > 0 and with_it > 0]
    if not ratios:
        return unknown_gain("no block with speculation and without it gave tokens")
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return SpeculationGain(mean, min(ratios), max(ratios), tuple(ratios), concurrency, None)
