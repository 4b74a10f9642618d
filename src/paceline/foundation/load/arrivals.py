"""Open-loop arrival schedules, computed before the first request is sent.

Arrivals are a renewal process with gamma gaps in operational time, in which the rate is 1; the
inverse of the integrated rate moves them to real time. With burstiness 1 this is the exact
non-homogeneous Poisson process of the rate.
A closed loop needs no schedule: a request is due when the previous one in its slot has ended.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from paceline.foundation.load.loads import OpenLoop

Offsets = npt.NDArray[np.float64]


def poisson_arrivals(
    rate_per_s: float,
    seed: int,
    num_requests: int | None = None,
    duration_s: float | None = None,
) -> Offsets:
    """Ascending arrival offsets in seconds, (num_arrivals,), with exponential gaps of mean 1/rate.

    The schedule ends after `num_requests` arrivals or before `duration_s`, whichever comes first.
    The same seed and rate give the same arrivals; a longer schedule begins with the shorter one.
    """
    if not rate_per_s > 0:
        raise ValueError(f"rate is {rate_per_s} requests/s; it must be above 0")
    return schedule_arrivals(OpenLoop(rate_per_s), seed, num_requests, duration_s)


def schedule_arrivals(
    load: OpenLoop,
    seed: int,
    num_requests: int | None = None,
    duration_s: float | None = None,
) -> Offsets:
    """Ascending arrival offsets in seconds, (num_arrivals,), of this load.

    The schedule ends after `num_requests` arrivals or before `duration_s`, whichever comes first.
    The same seed and load give the same arrivals. A changing rate needs `duration_s`, over which it
    changes.
    """
    if num_requests is None and duration_s is None:
        raise ValueError("an open-loop schedule has no end; give num_requests or duration_s")
    if load.final_rate_per_s is not None and duration_s is None:
        raise ValueError("a rate that changes over the run needs a duration")
    rng = np.random.default_rng(seed)
    to_seconds = _inverse_of_integrated_rate(load, duration_s)
    if num_requests is not None:
        offsets = to_seconds(np.cumsum(_gaps(rng, load.burstiness, num_requests)))
    else:
        assert duration_s is not None
        offsets = _arrivals_until(duration_s, load, rng, to_seconds)
    return offsets if duration_s is None else offsets[offsets < duration_s]


def _arrivals_until(
    duration_s: float,
    load: OpenLoop,
    rng: np.random.Generator,
    to_seconds: Callable[[Offsets], Offsets],
) -> Offsets:
    """Arrivals up to at least `duration_s`; the caller drops later ones."""
    highest_rate = max(load.rate_per_s, load.final_rate_per_s or 0.0)
    block = max(16, int(highest_rate * duration_s) + 1)
    operational = np.cumsum(_gaps(rng, load.burstiness, block))
    while not to_seconds(operational[-1:])[0] >= duration_s:
        more = np.cumsum(_gaps(rng, load.burstiness, block)) + operational[-1]
        operational = np.concatenate([operational, more])
    return to_seconds(operational)


def _gaps(rng: np.random.Generator, burstiness: float, count: int) -> Offsets:
    """Gaps with mean 1, (count,)."""
    return rng.gamma(burstiness, 1 / burstiness, count)


def _inverse_of_integrated_rate(
    load: OpenLoop, duration_s: float | None
) -> Callable[[Offsets], Offsets]:
    """From expected arrivals to seconds.

    A rate that changes linearly from a to b over D integrates to a t + (b - a) t² / (2 D). Solved
    for t in the form that does not cancel; beyond the duration the rate stays at b.
    """
    first = load.rate_per_s
    if load.final_rate_per_s is None or duration_s is None:
        return lambda expected: expected / first
    slope = (load.final_rate_per_s - first) / duration_s
    last, total = load.final_rate_per_s, (first + load.final_rate_per_s) / 2 * duration_s

    def to_seconds(expected: Offsets) -> Offsets:
        inside = np.minimum(expected, total)
        seconds = 2 * inside / (first + np.sqrt(np.maximum(first**2 + 2 * slope * inside, 0)))
        return np.asarray(seconds + np.maximum(expected - total, 0) / last)

    return to_seconds
