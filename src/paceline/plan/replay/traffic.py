"""The load of a replay: the requests of a recording, as phases of the policy simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.plan.replay.acceptance import AcceptanceFit
from paceline.plan.replay.values import ConstantConcurrency, Load
from paceline.policy_simulator.traffic.phases import (
    ClosedLoop,
    Lengths,
    Phase,
    TimedLoop,
    TimedRequest,
    TrafficClass,
)
from paceline.recording.records import RequestRecord

WARM_UP_FRACTION = 0.25
"""Of a phase at constant concurrency, before it counts: its requests begin all at once."""
MIN_COMPLETE = 20
"""With fewer, also the requests count that the start or the end of the recording cut."""
_ANY = Lengths(1, 1)
"""The lengths of a class are not used: every request has its own."""


def served_requests(requests: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The requests that produced output."""
    return [request for request in requests if request.output_tokens > 0]


def make_phases(
    requests: Sequence[RequestRecord],
    load: Load,
    fits: Mapping[str, AcceptanceFit],
    *,
    recorded_s: float,
    seconds: float,
    looks_ngrams_up: bool,
    random: np.random.Generator,
) -> tuple[Phase, ...]:
    """The phases of one replicate; the last one counts.

    Each request's lengths and category are those of a recorded request, drawn with replacement.
    """
    classes = tuple(
        TrafficClass(
            category,
            _ANY,
            _ANY,
            fits.get(category, fits[""]).truth(looks_ngrams_up=looks_ngrams_up),
        )
        for category in sorted({request.category for request in requests})
    )
    source = _complete(requests)
    if isinstance(load, ConstantConcurrency):
        number = max(len(source), 4 * load.num_requests)
        loop = ClosedLoop(load.num_requests)
        return tuple(
            Phase(name, loop, classes, duration_s, requests=_drawn(source, [0.0] * number, random))
            for name, duration_s in (("warm-up", WARM_UP_FRACTION * seconds), ("replay", seconds))
        )
    times_s = [request.arrived_s / load.factor for request in requests]
    duration_s = min(recorded_s / load.factor, seconds)
    times_s = [time_s for time_s in times_s if time_s < duration_s]
    drawn = _drawn(source, times_s, random)
    return (Phase("replay", TimedLoop(), classes, duration_s, requests=drawn),)


def _complete(requests: Sequence[RequestRecord]) -> Sequence[RequestRecord]:
    """The requests that were recorded from their arrival to their end; all, if there are few."""
    complete = [r for r in requests if r.ended_s is not None and not r.under_way]
    return complete if len(complete) >= MIN_COMPLETE else requests


def _drawn(
    source: Sequence[RequestRecord], times_s: Sequence[float], random: np.random.Generator
) -> tuple[TimedRequest, ...]:
    chosen = random.integers(0, len(source), len(times_s)).tolist()
    return tuple(
        _request(source[index], time_s) for index, time_s in zip(chosen, times_s, strict=True)
    )


def _request(record: RequestRecord, arrived_s: float) -> TimedRequest:
    prompt_tokens = record.prompt_tokens - record.cached_tokens
    if record.under_way:
        prompt_tokens = 1  # computed before the recording began
    return TimedRequest(
        arrived_s, record.category, max(prompt_tokens, 1), max(record.output_tokens, 1)
    )
