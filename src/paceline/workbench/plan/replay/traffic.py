"""The load of a replay: the requests of a recording, as phases of the policy simulator.

The lengths and the mix of categories are known from a sample only. So each replicate first draws as
many requests as the recording has, with replacement, and then the requests of its phase from these:
the first draw is the error of the recording's sample, the second that of the phase's.

Recorded arrivals are replayed from a random point of the recording, another one for every
replicate, and after its end from its start again: so every part of the recording counts alike.
Requests that ran or waited when the recording began have no arrival and are left out; instead, a
warm-up of the arrivals before the window fills the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paceline.foundation.planning.values import PlanError
from paceline.foundation.recording.records import RequestRecord
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    Lengths,
    Phase,
    TimedLoop,
    TimedRequest,
    TrafficClass,
)
from paceline.workbench.plan.replay.acceptance import AcceptanceFit
from paceline.workbench.plan.replay.values import ConstantConcurrency, Load

WARM_UP_FRACTION = 0.25
"""Time before the phase that counts, relative to it: the engine begins empty."""
MIN_COMPLETE = 20
"""With fewer, also the requests count that the start or the end of the recording cut."""
_MAX_WINDOWS = 10
"""Drawn in search of one with arrivals. A load with pauses has windows without, in which there is
nothing to predict."""
_ANY = Lengths(1, 1)
"""The lengths of a class are not used: every request has its own."""


def served_requests(requests: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The requests that produced output."""
    return [request for request in requests if request.output_tokens > 0]


def has_arrival(request: RequestRecord) -> bool:
    """Whether it arrived while recording. One from before may not have had output yet: `arrived_s`
    is 0 then too."""
    return request.arrived_s > 0.0 and not request.under_way


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

    Each request's lengths and category are those of a recorded request. Raises `PlanError` if
    nothing arrives in any of the windows of recorded time that this replicate drew.
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
    source = _resampled(_complete(requests), random)
    if isinstance(load, ConstantConcurrency):
        number = max(len(source), 4 * load.num_requests)
        loop = ClosedLoop(load.num_requests)
        return tuple(
            Phase(name, loop, classes, duration_s, requests=_drawn(source, [0.0] * number, random))
            for name, duration_s in (("warm-up", WARM_UP_FRACTION * seconds), ("replay", seconds))
        )
    whole_s = recorded_s / load.factor
    duration_s = min(whole_s, seconds)
    warm_up_s = WARM_UP_FRACTION * duration_s
    arrivals_s = [r.arrived_s / load.factor for r in requests if has_arrival(r) and whole_s]
    for _ in range(_MAX_WINDOWS):
        begins_s = float(random.uniform(0.0, whole_s))
        times_s = window(arrivals_s, whole_s, begins_s, duration_s)
        if times_s:
            break
    else:
        raise PlanError(
            f"no request arrives in {duration_s:g} s of the recorded load, which has "
            f"{len(arrivals_s)} requests in {whole_s:g} s; raise --seconds, which is {seconds:g}, "
            "or record under more load"
        )
    before_s = window(arrivals_s, whole_s, begins_s - warm_up_s, warm_up_s)
    replay = Phase(
        "replay", TimedLoop(), classes, duration_s, requests=_drawn(source, times_s, random)
    )
    if not before_s:
        return (replay,)
    drawn = _drawn(source, before_s, random)
    return (Phase("warm-up", TimedLoop(), classes, warm_up_s, requests=drawn), replay)


def window(
    times_s: Sequence[float], whole_s: float, begins_s: float, duration_s: float
) -> list[float]:
    """The times within a window, from its begin, ascending; the recording repeats endlessly.

    `duration_s` is at most `whole_s`, the length of the recording.

    >>> window([0.0, 2.0, 9.0], 10.0, 8.0, 4.0)
    [1.0, 2.0]
    """
    moved_s = ((time_s - begins_s) % whole_s for time_s in times_s)
    return sorted(time_s for time_s in moved_s if time_s < duration_s)


def _complete(requests: Sequence[RequestRecord]) -> Sequence[RequestRecord]:
    """The requests that were recorded from their arrival to their end; if there are few, also those
    that the end cut, and only if there are no others, those that the start cut."""
    arrived = [r for r in requests if not r.under_way]
    complete = [r for r in arrived if r.ended_s is not None]
    return complete if len(complete) >= MIN_COMPLETE else arrived or requests


def _resampled(
    requests: Sequence[RequestRecord], random: np.random.Generator
) -> Sequence[RequestRecord]:
    """As many of the requests, drawn with replacement."""
    return [requests[index] for index in random.integers(0, len(requests), len(requests))]


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
