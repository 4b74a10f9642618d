"""`Observation`: several readings of one server over a window, and its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from paceline.foundation.servers.metrics_histogram import Histogram
from paceline.foundation.servers.metrics_page import MetricsPage
from paceline.operations.doctor.readings.engines import EngineReading, read_engines
from paceline.operations.doctor.readings.local_cpu import LocalCpu
from paceline.operations.doctor.readings.monitors import MonitorFile
from paceline.operations.doctor.readings.probe_result import ProbeResult
from paceline.operations.doctor.values import CannotJudge
from paceline.runtime.config.tree import DEFAULT_MAX_PAUSE_MS

FIRST_TOKEN_HISTOGRAMS = {
    "vllm": "vllm:time_to_first_token_seconds",
    "paceline": "paceline_time_to_first_token_seconds",
}
"""By kind of server: judged at every reading, not only at the first and the last."""


_ENDED = {
    "vllm": ("vllm:request_success_total", "finished_reason"),
    "paceline": ("paceline_requests_total", "outcome"),
}
"""By kind of server: the counter of ended requests, and its label for how they ended."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The server at one moment."""

    at_s: float
    """Monotonic clock."""
    page: MetricsPage
    governors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The states of GET /admin/governor, by replica; of a vLLM server what its page shows."""
    replicas: Sequence[Mapping[str, Any]] = ()
    """The entries of GET /admin/replicas; empty for a vLLM server."""
    kept_engines: Mapping[str, EngineReading] | None = None
    """Of a reading without its whole page."""

    @property
    def engines(self) -> Mapping[str, EngineReading]:
        """The figures of each engine."""
        if self.kept_engines is not None:
            return self.kept_engines
        return read_engines(self.page, self.governors, self.at_s)

    def thinned(self) -> Reading:
        """The same engines; of the page only the times to the first token."""
        kept = tuple(FIRST_TOKEN_HISTOGRAMS.values())
        samples = {
            name: values for name, values in self.page.samples.items() if name.startswith(kept)
        }
        return Reading(self.at_s, MetricsPage(samples), kept_engines=self.engines)


@dataclass(frozen=True)
class Observation:
    """What the checks judge. At least two readings, in order.

    Readings between the first and the last may be thinned.
    """

    kind: str
    """paceline or vllm."""
    readings: Sequence[Reading]
    log_lines: Sequence[str] | None = None
    """The engine's log; None if none was given."""
    probe: ProbeResult | None = None
    """None if no requests were sent."""
    lost: str | None = None
    """Why the server could not be read at the end; None if it could."""
    version: str | None = None
    """Of a vLLM server, as it reports it; None for a gateway."""
    local_cpu: LocalCpu | None = None
    """Of this machine; None if the server is on another one or cannot be read."""
    monitors: Sequence[MonitorFile] = ()
    """Rule files and dashboards that were given."""
    max_pause_ms: float = DEFAULT_MAX_PAUSE_MS
    """Longest pause between two tokens of an answer that users accept."""

    def __post_init__(self) -> None:
        if len(self.readings) < 2:
            raise ValueError("an observation needs two readings")

    @property
    def first(self) -> Reading:
        return self.readings[0]

    @property
    def last(self) -> Reading:
        return self.readings[-1]

    @property
    def duration_s(self) -> float:
        return self.last.at_s - self.first.at_s

    @cached_property
    def engines(self) -> Mapping[str, Sequence[EngineReading]]:
        """The readings of each engine that is on every page, in order."""
        pages = [reading.engines for reading in self.readings]
        return {
            name: [page[name] for page in pages]
            for name in pages[0]
            if all(name in page for page in pages)
        }

    def increase(self, name: str, **labels: str) -> float:
        """By how much a counter grew. Raises CannotJudge if it is not shown, or fell."""
        after = self.last.page.total(name, **labels)
        if after is None:
            raise CannotJudge(f"the server does not show {name}")
        # A labelled counter may appear with its first event: before it was 0.
        before = self.first.page.total(name, **labels) or 0.0
        if after < before:
            raise CannotJudge(f"{name} fell: the server restarted while it was observed")
        return after - before

    def histogram(self, name: str) -> Histogram:
        """What was added to a histogram. Raises CannotJudge if it is not shown, or fell."""
        before, after = self.first.page.histogram(name), self.last.page.histogram(name)
        if before is None or after is None:
            raise CannotJudge(f"the server does not show {name}")
        added = after.minus(before)
        if added is None:
            raise CannotJudge(f"{name} fell: the server restarted while it was observed")
        return added


def ended_by_outcome(observation: Observation) -> dict[str, float]:
    """Requests that ended while the server was observed. Raises CannotJudge after a restart."""
    name, label = _ENDED[observation.kind]
    return {
        value: observation.increase(name, **{label: value})
        for value in observation.last.page.label_values(name, label)
    }


def ended_requests(observation: Observation) -> float | None:
    """The sum of `ended_by_outcome`; None after a restart."""
    try:
        return sum(ended_by_outcome(observation).values())
    except CannotJudge:
        return None


def gauge_values(
    readings: Sequence[EngineReading], gauge: Callable[[EngineReading], float | None]
) -> list[float]:
    """The values of a gauge that are shown. Raises CannotJudge without one."""
    values = [value for value in map(gauge, readings) if value is not None]
    if not values:
        raise CannotJudge("the server does not show this figure of its engines")
    return values


def growth(
    readings: Sequence[EngineReading], counter: Callable[[EngineReading], float | None]
) -> float | None:
    """The last value of a counter less the first; None if one is unknown, or it fell."""
    before, after = counter(readings[0]), counter(readings[-1])
    if before is None or after is None or after < before:
        return None
    return after - before


def share_of(
    readings: Sequence[EngineReading], condition: Callable[[EngineReading], bool]
) -> float:
    """In which fraction of the readings a condition holds."""
    return sum(map(condition, readings)) / len(readings)
