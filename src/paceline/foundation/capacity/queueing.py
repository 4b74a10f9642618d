"""Requests in a replica, and waiting for a free slot, with Poisson arrivals.

Waiting for a slot is the M/M/c queue, with exponential service.

c slots serve requests of mean duration s, which arrive at rate λ. With the load λ * s / c below 1,
and C(c, λ s) the Erlang C probability that all slots are busy,

    P(wait > t) = C * exp(-(c / s - λ) * t)

Real traffic is burstier than Poisson and answers vary less than exponentially; the two errors
partly cancel. Reference: Kleinrock, "Queueing Systems", volume 1, section 3.5.

The number n of requests in a replica that serves all of them at once, each in w(n) seconds, is in
the steady state

    P(n) = P(0) * Π_{i = 1..n} λ * w(i) / i

whatever the distribution of their lengths (Kelly, "Reversibility and Stochastic Networks", section
3.3: a symmetric queue).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

_MANY_SLOTS = 2000
"""Above it, the limit for many slots replaces a sum over all of them. Here it is at most 10 % above
the sum where the probability exceeds 1 %."""
_LARGE_BETA = 30.0
"""Of the limit, whose probability is below 1e-190 from here on."""


def erlang_c(num_slots: int, offered_load: float) -> float:
    """Probability that a request waits; 1 where the load is not below the number of slots.

    `offered_load` is the arrival rate times the mean duration.

    >>> round(erlang_c(1, 0.5), 3), round(erlang_c(2, 1.0), 3)
    (0.5, 0.333)
    """
    if offered_load >= num_slots:
        return 1.0
    if num_slots > _MANY_SLOTS:
        # Halfin and Whitt, "Heavy-traffic limits for queues with many exponential servers", 1981.
        beta = (1.0 - offered_load / num_slots) * math.sqrt(num_slots)
        if beta > _LARGE_BETA:
            return 0.0
        below = math.sqrt(2 * math.pi) * beta * NormalDist().cdf(beta) * math.exp(beta**2 / 2)
        return 1.0 / (1.0 + below)
    blocking = 1.0
    for busy in range(1, num_slots + 1):
        blocking = offered_load * blocking / (busy + offered_load * blocking)
    load = offered_load / num_slots
    return blocking / (1.0 - load + load * blocking)


def wait_quantile_s(
    num_slots: int, arrivals_per_s: float, service_s: float, quantile: float
) -> float:
    """Seconds that a share `quantile` of the requests does not wait longer than; inf if overloaded.

    >>> round(wait_quantile_s(1, 0.5, 1.0, 0.95), 2)  # ln(0.5 / 0.05) / 0.5
    4.61
    """
    offered = arrivals_per_s * service_s
    if offered >= num_slots:
        return math.inf
    waiting = erlang_c(num_slots, offered)
    exceeded = 1.0 - quantile
    if waiting <= exceeded:
        return 0.0
    return math.log(waiting / exceeded) / (num_slots / service_s - arrivals_per_s)


def request_probabilities(
    arrivals_per_s: float, residence_s: Callable[[int], float], num_slots: int
) -> list[float]:
    """P(n) for n from 0 to `num_slots`, without the requests that wait for a slot.

    `residence_s` gives w(n), the seconds that a request stays where n are served. Raises
    `ValueError` where requests arrive as fast as `num_slots` of them are served, or faster.

    >>> [round(p, 3) for p in request_probabilities(0.5, lambda n: n * 1.0, 3)]  # 0.5 ** n
    [0.533, 0.267, 0.133, 0.067]
    """
    served_per_s = num_slots / residence_s(num_slots)
    if arrivals_per_s >= served_per_s:
        raise ValueError(
            f"{arrivals_per_s:.3g} requests/s arrive at a replica that serves at most "
            f"{served_per_s:.3g}/s with its {num_slots} slots in use: the wait grows without "
            "bound; plan more replicas"
        )
    logs = [0.0]
    for n in range(1, num_slots + 1):
        factor = arrivals_per_s * residence_s(n) / n
        logs.append(logs[-1] + math.log(factor) if factor > 0 else -math.inf)
    highest = max(logs)
    weights = [math.exp(log - highest) for log in logs]
    total = sum(weights)
    return [weight / total for weight in weights]
