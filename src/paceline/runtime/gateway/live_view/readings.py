"""`TrafficReading`: the gateway's counters at one moment; rates and percentiles between two.

Pure: values in, values out. The counters are those of `metrics`; none is added for the live view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paceline.runtime.gateway.live_view.percentiles import Buckets, percentiles_of
from paceline.runtime.gateway.live_view.values import Percentiles, TrafficView
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples
from paceline.runtime.gateway.outcomes import Outcome

_WINDOW_S = 60.0
"""Rates and percentiles cover this time. Chosen empirically: p99 needs some hundred requests, and
an operator wants to see a change within a minute."""

_CLIENT_CAUSED = frozenset(
    {
        Outcome.COMPLETED, Outcome.REFUSED, Outcome.ENGINE_REFUSED, Outcome.CLIENT_GONE,
        Outcome.TOO_LARGE,
    }
)  # fmt: skip
"""Outcomes that are no failure of the service, as in the alerts on the error budget."""

_TTFT = "paceline_time_to_first_token_seconds"
_TPOT = "paceline_time_per_output_token_seconds"
_QUEUE = "paceline_queue_seconds"


@dataclass(frozen=True, slots=True)
class TrafficReading:
    """Counts since the start of the gateway, summed over its processes."""

    read_at_s: float
    """Monotonic clock."""
    num_ended: float = 0.0
    num_failed: float = 0.0
    output_tokens: float = 0.0
    num_waiting: int = 0
    """Waiting now."""
    buckets: dict[str, Buckets] = field(default_factory=dict)
    """By metric."""


def read_traffic(families: Iterable[FamilyOfSamples], read_at_s: float) -> TrafficReading:
    """The reading in the samples of one or several processes."""
    by_name = {family.name: family for family in families}
    ended = failed = 0.0
    for labels, value in _values(by_name, "paceline_requests", "_total"):
        ended += value
        if dict(labels)["outcome"] not in _CLIENT_CAUSED:
            failed += value
    return TrafficReading(
        read_at_s=read_at_s,
        num_ended=ended,
        num_failed=failed,
        output_tokens=sum(v for _, v in _values(by_name, "paceline_output_tokens", "_total")),
        num_waiting=round(sum(v for _, v in _values(by_name, "paceline_admission_queue_length"))),
        buckets={name: _buckets(by_name, name) for name in (_TTFT, _TPOT, _QUEUE)},
    )


class TrafficWindow:
    """The readings of the last minute."""

    def __init__(self) -> None:
        self._readings: deque[TrafficReading] = deque()

    def add(self, reading: TrafficReading, num_in_flight: int) -> TrafficView:
        """Add the newest reading; what the window shows with it."""
        self._readings.append(reading)
        while reading.read_at_s - self._readings[0].read_at_s > _WINDOW_S:
            self._readings.popleft()
        return traffic_between(self._readings[0], reading, num_in_flight)


def traffic_between(
    before: TrafficReading, after: TrafficReading, num_in_flight: int
) -> TrafficView:
    """The rates and percentiles of the time between two readings; no rates without such a time."""
    seconds = after.read_at_s - before.read_at_s

    def rate(earlier: float, later: float) -> float | None:
        # A worker that was lost may take its last counts with it.
        return max(0.0, later - earlier) / seconds if seconds > 0 else None

    def percentiles(name: str) -> Percentiles | None:
        return percentiles_of(_increase(before.buckets.get(name, ()), after.buckets.get(name, ())))

    return TrafficView(
        num_in_flight=num_in_flight,
        num_waiting=after.num_waiting,
        requests_per_s=rate(before.num_ended, after.num_ended),
        failed_per_s=rate(before.num_failed, after.num_failed),
        output_tokens_per_s=rate(before.output_tokens, after.output_tokens),
        ttft=percentiles(_TTFT),
        tpot=percentiles(_TPOT),
        queue=percentiles(_QUEUE),
    )


def _values(
    by_name: dict[str, FamilyOfSamples], name: str, ending: str = ""
) -> Sequence[tuple[tuple[tuple[str, str], ...], float]]:
    family = by_name.get(name)
    return () if family is None else family.samples.get(name + ending, ())


def _buckets(by_name: dict[str, FamilyOfSamples], name: str) -> Buckets:
    samples = _values(by_name, name, "_bucket")
    return tuple(sorted((float(dict(labels)["le"]), value) for labels, value in samples))


def _increase(before: Buckets, after: Buckets) -> Buckets:
    earlier = dict(before)
    return tuple((bound, max(0.0, count - earlier.get(bound, 0.0))) for bound, count in after)
