"""What does a worker know of the others, and what do they know of it?

State on values: fed with the messages in both directions, asked for every request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from paceline.gateway.places import Demand, Places, places_among
from paceline.gateway.workers.messages import Elsewhere

_NOTHING = Demand()


class Neighbourhood:
    """The `Neighbours` of the worker at `place`, of so many.

    Its own numbers are exact where they are used, the others' as old as the way of a message over
    the head: about 50 ms, longer when one of the three processes is busy for longer.
    """

    def __init__(self, place: int, num_workers: int) -> None:
        self._place = place
        self._in_flight: Mapping[str, int] = {}
        self._demands: tuple[Mapping[str, Demand], ...] = ({},) * (num_workers - 1)
        self._told: deque[tuple[int, Mapping[str, Demand]]] = deque([(0, {})])
        """What was told of oneself: the last that the others know, and all that came after."""

    def hear(self, elsewhere: Elsewhere) -> None:
        """Take in what the others hold."""
        self._in_flight = elsewhere.in_flight
        self._demands = elsewhere.demands
        while len(self._told) > 1 and self._told[0][0] < elsewhere.heard:
            self._told.popleft()

    def told(self, number: int, demands: Mapping[str, Demand]) -> None:
        """Note what the report of this number says of oneself."""
        self._told.append((number, demands))

    def num_in_flight(self, replica_name: str) -> int:
        return self._in_flight.get(replica_name, 0)

    def places(self, model: str, num_slots: int) -> Places:
        others = [demands.get(model, _NOTHING) for demands in self._demands]
        num_known = min(demands.get(model, _NOTHING).num_held for _, demands in self._told)
        return places_among(others, self._place, num_known, num_slots)
