"""`Watched`: what the server has sent so far, kept up to date by its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MAX_POINTS = 300
_MAX_EVENTS = 50


class Missed(Exception):
    """An update is missing; only a new history helps."""


class Watched:
    """The history of a server, as it was at its last event."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.number: int = document["number"]
        self.latest: Mapping[str, Any] = document["latest"]
        points = document["points"]
        self._series: dict[str, dict[str, list[float | None]]] = {
            "traffic": {name: list(values) for name, values in points["traffic"].items()},
            "fleet": {name: list(values) for name, values in points["fleet"].items()},
        }
        self.events: list[Mapping[str, Any]] = list(document["events"])[-_MAX_EVENTS:]
        """Oldest first."""

    def series(self, group: str, name: str) -> list[float | None]:
        """The values of `traffic` or `fleet`, oldest first."""
        return self._series[group].get(name, [])

    def update(self, document: Mapping[str, Any]) -> None:
        """Add an update. Raises `Missed` unless it is the next one."""
        if document["number"] != self.number + 1:
            raise Missed
        self.number, self.latest = document["number"], document["latest"]
        for group, series in self._series.items():
            for name, values in series.items():
                values.append(self.latest[group].get(name))
                del values[:-_MAX_POINTS]
        self.events.extend(document["events"])
        del self.events[:-_MAX_EVENTS]
