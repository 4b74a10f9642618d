"""Which rate a sweep measures next, and whether a server kept a rate. Decisions only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.load.records import RequestRecord
from paceline.workbench.bench.results.saturation import find_queue_growth

MIN_SERVED_FRACTION = 0.9
"""Of the requests that should have ended; below it requests pile up. Chosen empirically: a
server that keeps the rate serves 0.95 to 1.05, and one at 1.25 times its capacity about 0.8."""
_FACTOR = 2.0
"""Between two rates while the server keeps them."""
_RESOLUTION = 1.25
"""The search ends when the lowest rate that was not kept is within this factor of the highest that
was: runs of half a minute cannot tell closer rates apart."""


@dataclass(frozen=True, slots=True)
class RateStep:
    """What one rate gave."""

    rate_per_s: float
    is_kept: bool


def served_fraction(records: Sequence[RequestRecord]) -> float | None:
    """Successful requests that ended during the arrivals / requests that should have.

    A request should have ended if it was due at least one early latency before the last arrival.
    The early latency is the median of the first quarter of the requests, before a queue has grown.
    So the time for which the last requests run on does not count against the server, as it does in
    requests / whole time. None if no request should have ended: the run is too short.
    """
    if not records:
        return None
    ordered = sorted(records, key=lambda record: record.scheduled_s)
    early = [r.e2e_s for r in ordered[: max(1, len(ordered) // 4)] if r.is_ok]
    if not early:
        return 0.0
    last_s = ordered[-1].scheduled_s
    expected = sum(r.scheduled_s <= last_s - statistics.median(early) for r in ordered)
    ended = sum(r.is_ok and r.finished_s <= last_s for r in ordered)
    return ended / expected if expected else None


def is_rate_kept(records: Sequence[RequestRecord]) -> bool:
    """Whether it is shown that the server kept the rate of these requests: nothing piled up."""
    served = served_fraction(records)
    if served is None or served < MIN_SERVED_FRACTION:
        return False
    return find_queue_growth(records) is None


def next_rate(steps: Sequence[RateStep], first_per_s: float) -> float | None:
    """The next rate of a search for the highest one that is kept; None when it is found.

    Rates double from the first one until one is not kept, then halve the gap in ratio. A first rate
    that is not kept is halved in the same way.

    >>> next_rate([RateStep(2.0, True), RateStep(4.0, False)], 2.0)
    2.8284271247461903
    """
    if not steps:
        return first_per_s
    kept = max((s.rate_per_s for s in steps if s.is_kept), default=None)
    lost = min((s.rate_per_s for s in steps if not s.is_kept), default=None)
    if lost is None:
        assert kept is not None
        return kept * _FACTOR
    if kept is None:
        return lost / _FACTOR
    return math.sqrt(kept * lost) if lost / kept > _RESOLUTION else None
