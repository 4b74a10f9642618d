"""Goodput: requests per second that meet every bound of a service level objective (SLO).

A failed request and an empty answer miss the objective, whatever their latency. The share of
requests that meet it has a Wilson score interval, which stays inside [0, 1] and holds for small
samples and for shares near 0 and 1 (Brown, Cai, DasGupta: Interval Estimation for a Binomial
Proportion, 2001).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.distribution import Interval

_Z_95 = 1.96
_BOUND = re.compile(r"\s*(ttft|tpot|e2e)\s*=\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*")
_MS = {"ms": 1.0, "s": 1000.0}


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper bounds on the latencies of a request; None where there is none."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    def __post_init__(self) -> None:
        bounds = (self.ttft_ms, self.tpot_ms, self.e2e_ms)
        if all(bound is None for bound in bounds):
            raise ValueError("an SLO needs at least one bound")
        if any(bound is not None and not bound > 0 for bound in bounds):
            raise ValueError(f"the bounds of an SLO are {bounds} ms; each must be above 0")

    def is_met(self, record: RequestRecord) -> bool | None:
        """Whether a request succeeded with content within every bound; None if that is unknown.

        An answer of one token has no time per output token and meets that bound. Without usage the
        time is unknown, unless the request misses another bound.
        """
        if not record.is_ok or record.ttft_s is None:
            return False
        if not (
            _within(record.ttft_s, self.ttft_ms)
            and _within(record.tpot_s, self.tpot_ms)
            and _within(record.e2e_s, self.e2e_ms)
        ):
            return False
        return None if self.tpot_ms is not None and record.output_tokens is None else True


@dataclass(frozen=True, slots=True)
class Goodput:
    """How many requests met the objective."""

    slo: Slo
    num_requests: int
    """All requests that ended, also failed ones."""
    num_met: int | None
    """None, as all figures below, if it is unknown for some requests: the objective bounds the time
    per output token and answers came without usage."""
    attained_fraction: float | None
    """num_met / num_requests."""
    attained_fraction_ci95: Interval | None
    """Wilson score interval. It takes requests for independent."""
    requests_per_s: float | None
    """Requests that met the objective per second of the window."""
    requests_per_s_ci95: Interval | None
    """The interval of the fraction times all requests per second."""


def parse_slo(text: str) -> Slo:
    """An SLO as it is typed: `ttft=1s,tpot=50ms,e2e=20s`, in any order, at least one.

    >>> parse_slo("ttft=1s, tpot=50ms")
    Slo(ttft_ms=1000.0, tpot_ms=50.0, e2e_ms=None)
    """
    bounds: dict[str, float] = {}
    for part in text.split(","):
        match = _BOUND.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{part.strip()!r} is no bound; write ttft, tpot or e2e, =, a number, and ms or s, "
                "such as ttft=1s,tpot=50ms"
            )
        name, number, unit = match.groups()
        if name in bounds:
            raise ValueError(f"{name} is bounded twice; give one bound")
        bounds[name] = float(number) * _MS[unit]
    return Slo(bounds.get("ttft"), bounds.get("tpot"), bounds.get("e2e"))


def describe_slo(slo: Slo) -> str:
    """The bounds for people: `TTFT <= 1000 ms, TPOT <= 50 ms`."""
    bounds = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2E", slo.e2e_ms))
    return ", ".join(f"{name} <= {bound:g} ms" for name, bound in bounds if bound is not None)


def measure_goodput(records: Sequence[RequestRecord], slo: Slo, window_s: float | None) -> Goodput:
    """The goodput of all records of a window."""
    total = len(records)
    num_met = count_met(records, slo)
    if num_met is None:
        return Goodput(slo, total, None, None, None, None, None)
    interval = wilson_interval(num_met, total)
    rate = total / window_s if window_s else None
    return Goodput(
        slo=slo,
        num_requests=total,
        num_met=num_met,
        attained_fraction=num_met / total if total else None,
        attained_fraction_ci95=interval,
        requests_per_s=num_met / window_s if window_s else None,
        requests_per_s_ci95=(
            (interval[0] * rate, interval[1] * rate) if interval and rate is not None else None
        ),
    )


def count_met(records: Sequence[RequestRecord], slo: Slo) -> int | None:
    """How many requests met the objective; None if that is unknown for one of them."""
    met = [slo.is_met(record) for record in records]
    return None if None in met else sum(map(bool, met))


def wilson_interval(num_successes: int, num_trials: int, z: float = _Z_95) -> Interval | None:
    """The Wilson score interval of a share, at 95 % with the default z; None without trials.

    z is the normal quantile of the confidence. Centre (p + z²/2n) / (1 + z²/n), half width
    z / (1 + z²/n) · sqrt(p(1 - p)/n + z²/4n²).
    """
    if not num_trials:
        return None
    n, share = num_trials, num_successes / num_trials
    scale = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def _within(latency_s: float | None, bound_ms: float | None) -> bool:
    return bound_ms is None or latency_s is None or latency_s * 1000 <= bound_ms
