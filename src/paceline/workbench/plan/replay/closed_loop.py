"""Whether the recorded requests came from a closed loop: a fixed number of clients, each of which
sends its next request when the answer to the last one has ended.

The arrivals of a closed loop follow from the speed of the recorded engine. Replayed as they were,
no faster setting could serve more of them, and a slower one would build up a queue that the clients
would not.

A closed loop of N holds N requests at nearly every moment. The level of open traffic varies: of
Poisson arrivals its mean is below 0.7 of its maximum for up to 64 requests at a time, and below 0.9
for up to some 800.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from paceline.foundation.recording.records import RequestRecord

_MIN_MEAN_LEVEL = {64: 0.85, 10**9: 0.93}
"""Mean of the requests at a time over their maximum, at least, by the highest maximum. A loop of
clients that need 20 ms between answers of half a second has 0.96; 0.88 where the recorder notes an
arrival a step late."""
_MIN_ARRIVALS = 20
_MIN_TURNS = 2
"""Arrivals for each client."""


def closed_loop_size(requests: Sequence[RequestRecord]) -> int | None:
    """The number of clients; None for open traffic, or if too few requests show it."""
    changes = sorted(
        [(request.arrived_s, 1) for request in requests]
        + [(request.ended_s, -1) for request in requests if request.ended_s is not None]
    )
    levels = []
    level = 0
    for at_s, change in changes:
        level += change
        levels.append((at_s, level, change > 0))
    most = max((level for _, level, _ in levels), default=0)
    if most < 1:
        return None
    first = next(index for index, (_, level, _) in enumerate(levels) if level == most)
    last = max(index for index, (_, level, _) in enumerate(levels) if level == most)
    within = levels[first : last + 1]
    num_arrivals = sum(is_arrival for _, _, is_arrival in within)
    if num_arrivals < max(_MIN_ARRIVALS, _MIN_TURNS * most):
        return None
    held_s = sum(level * (after_s - at_s) for (at_s, level, _), (after_s, _, _) in pairwise(within))
    whole_s = within[-1][0] - within[0][0]
    least = next(mean for highest, mean in _MIN_MEAN_LEVEL.items() if most <= highest)
    return most if held_s >= least * most * whole_s > 0 else None
