"""Open-loop arrival schedules, computed before the first request is sent.

A closed loop needs no schedule: a request is due when the previous one in its slot has ended.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    if num_requests is None and duration_s is None:
        raise ValueError("an open-loop schedule has no end; give num_requests or duration_s")
    rng = np.random.default_rng(seed)
    if num_requests is not None:
        offsets = np.cumsum(rng.exponential(1 / rate_per_s, num_requests))
    else:
        offsets = np.empty(0)
    if duration_s is not None:
        if num_requests is None:
            offsets = _arrivals_until(duration_s, rate_per_s, rng)
        offsets = offsets[offsets < duration_s]
    return offsets


def _arrivals_until(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Offsets:
    """Arrivals up to at least `duration_s`; the caller drops later ones."""
    block = max(16, int(rate_per_s * duration_s) + 1)
    gaps = rng.exponential(1 / rate_per_s, block)
    while gaps.sum() < duration_s:
        gaps = np.concatenate([gaps, rng.exponential(1 / rate_per_s, block)])
    return np.cumsum(gaps)
