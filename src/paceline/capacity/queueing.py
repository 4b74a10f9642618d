"""Waiting for a free slot: the M/M/c queue, with Poisson arrivals and exponential service.

c slots serve requests of mean duration s, which arrive at rate λ. With the load λ * s / c below 1,
and C(c, λ s) the Erlang C probability that all slots are busy,

    P(wait > t) = C * exp(-(c / s - λ) * t)

Real traffic is burstier than Poisson and answers vary less than exponentially; the two errors
partly cancel. Reference: Kleinrock, "Queueing Systems", volume 1, section 3.5.
"""

from __future__ import annotations

import math


def erlang_c(num_slots: int, offered_load: float) -> float:
    """Probability that a request waits; 1 where the load is not below the number of slots.

    `offered_load` is the arrival rate times the mean duration.

    >>> round(erlang_c(1, 0.5), 3), round(erlang_c(2, 1.0), 3)
    (0.5, 0.333)
    """
    if offered_load >= num_slots:
        return 1.0
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
