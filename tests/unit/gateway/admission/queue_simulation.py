"""Simulation of an overloaded queue before a number of slots, with a known peak of goodput.

Arrivals are Poisson, the time for which a slot is held is log-normal, and clients leave at their
deadline, which frees their slot. The peak is slots / mean hold. One discipline is the gateway's
`QueueForecast`; the others are compared with it.

`PYTHONPATH=tests python -m unit.gateway.admission.queue_simulation` prints the table in
docs/gateway.md.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal, get_args

from paceline.runtime.gateway.admission.queue_forecast import QueueForecast
from paceline.runtime.gateway.settings import AdmissionSettings

Discipline = Literal["forecast", "unbounded", "adaptive_lifo"]


@dataclass(frozen=True, slots=True)
class Overload:
    num_slots: int
    load: float
    """Offered requests per second over the peak goodput."""
    deadline_s: tuple[float, float]
    """Uniform between these."""
    hold_s: float = 2.0
    hold_sigma: float = 0.5
    length_s: float = 300.0
    warm_up_s: float = 60.0
    """Not counted."""
    max_queue_wait_s: float = 10.0

    def counts(self, now_s: float) -> bool:
        return self.warm_up_s < now_s < self.length_s


@dataclass(frozen=True, slots=True)
class Result:
    goodput_fraction: float
    """Answers complete within their deadline, over slots / mean hold."""
    refused_late_fraction: float
    """Requests that waited, and were refused when their time was over."""
    wait_p50_s: float
    wait_p99_s: float
    """Of admitted requests."""


def simulate(overload: Overload, discipline: Discipline, seed: int = 1) -> Result:
    rng = random.Random(seed)
    forecast = QueueForecast(AdmissionSettings(max_queue_wait_s=overload.max_queue_wait_s))
    events = _arrivals(overload, rng)
    queue: OrderedDict[int, tuple[float, float, float]] = OrderedDict()
    num_held = num_good = num_counted = num_queued = num_admitted = 0
    last_empty_s, waits = 0.0, []
    while events:
        now_s, is_end, number, hold_s, deadline_s = heapq.heappop(events)
        is_counted = overload.counts(now_s)
        if is_end:
            num_held -= 1
            num_good += is_counted and bool(deadline_s)
            forecast.slots_ended(hold_s, now_s)
        else:
            num_counted += is_counted
            position = len(queue) + 1
            is_free = num_held < overload.num_slots and not queue
            if (
                discipline != "forecast"
                or is_free
                or not forecast.judge(
                    position, overload.num_slots, deadline_s, now_s, num_ahead=position - 1
                )
            ):
                queue[number] = (now_s, hold_s, deadline_s)
                num_queued += is_counted
        while queue and num_held < overload.num_slots:
            is_lifo = discipline == "adaptive_lifo" and now_s - last_empty_s > 1.0
            number, (arrived_s, hold_s, deadline_s) = queue.popitem(last=is_lifo)
            if now_s - arrived_s > min(overload.max_queue_wait_s, deadline_s):
                continue
            num_held += 1
            if overload.counts(arrived_s):
                num_admitted += 1
                waits.append(now_s - arrived_s)
            left_s = arrived_s + deadline_s - now_s
            is_good = hold_s <= left_s
            end = (now_s + min(hold_s, left_s), 1, number, min(hold_s, left_s), float(is_good))
            heapq.heappush(events, end)
        if not queue:
            last_empty_s = now_s
        forecast.queue_changed(len(queue), overload.num_slots, now_s)
    waits.sort()
    peak = (overload.length_s - overload.warm_up_s) * overload.num_slots / overload.hold_s
    return Result(
        num_good / peak,
        (num_queued - num_admitted) / num_counted,
        waits[len(waits) // 2],
        waits[len(waits) * 99 // 100],
    )


def _arrivals(overload: Overload, rng: random.Random) -> list[tuple[float, int, int, float, float]]:
    mu = math.log(overload.hold_s) - overload.hold_sigma**2 / 2
    events, now_s = [], 0.0
    while now_s < overload.length_s:
        now_s += rng.expovariate(overload.load * overload.num_slots / overload.hold_s)
        hold_s = rng.lognormvariate(mu, overload.hold_sigma)
        events.append((now_s, 0, len(events), hold_s, rng.uniform(*overload.deadline_s)))
    return events


def _print_table() -> None:
    print("slots load discipline     goodput of the peak   refused late   (seeds 1 to 3)")
    for load in (1.5, 3.0):
        for num_slots in (1, 4, 16, 64):
            for discipline in get_args(Discipline):
                overload = Overload(num_slots, load, (4.0, 6.0))
                results = [simulate(overload, discipline, seed) for seed in (1, 2, 3)]
                goodput = " ".join(f"{result.goodput_fraction:.2f}" for result in results)
                late = " ".join(f"{result.refused_late_fraction:.2f}" for result in results)
                print(f"{num_slots:5} {load:4} {discipline:14} {goodput:>20} {late:>14}")


if __name__ == "__main__":
    _print_table()
