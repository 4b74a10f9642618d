"""Arrivals of a phase's requests: by the clock, or in closed loops by free capacity.

The n-th request of a phase is the same request under every policy: its draws come from the seed,
the phase's number and n.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    OpenLoop,
    Phase,
    TimedLoop,
    TrafficClass,
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arriving request; the seed and its number determine everything about it."""

    arrived_s: float
    kind: TrafficClass
    prompt_tokens: int
    output_tokens: int
    quality: float
    """Standard normal: how much better its drafts are than its class's."""
    random: np.random.Generator


def draw_arrival(
    phase: Phase, arrived_s: float, random: np.random.Generator, number: int = 0
) -> Arrival:
    """Request `number` of the phase: one that it names, else one drawn from its classes.

    Mutates `random` only.
    """
    if phase.requests:
        named = phase.requests[number % len(phase.requests)]
        return Arrival(
            arrived_s=arrived_s,
            kind=next(kind for kind in phase.classes if kind.name == named.class_name),
            prompt_tokens=named.prompt_tokens,
            output_tokens=named.output_tokens,
            quality=float(random.standard_normal()),
            random=random,
        )
    share = random.random() * sum(kind.weight for kind in phase.classes)
    kinds = iter(phase.classes)
    kind = next(kinds)
    while share >= kind.weight:
        share -= kind.weight
        kind = next(kinds, kind)
    return Arrival(
        arrived_s=arrived_s,
        kind=kind,
        prompt_tokens=int(random.integers(kind.prompt_tokens.low, kind.prompt_tokens.high + 1)),
        output_tokens=int(random.integers(kind.output_tokens.low, kind.output_tokens.high + 1)),
        quality=float(random.standard_normal()),
        random=random,
    )


class Arrivals:
    """The requests of one phase, in order."""

    def __init__(self, phase: Phase, *, start_s: float, seed: int, phase_number: int) -> None:
        self._phase = phase
        self._start_s = start_s
        self._seed = (seed, phase_number)
        self._num_drawn = 0
        self._times_s = deque[float]()
        if isinstance(phase.load, TimedLoop):
            self._times_s.extend(start_s + request.arrived_s for request in phase.requests)
        if isinstance(phase.load, OpenLoop) and phase.duration_s is not None:
            random = np.random.default_rng([*self._seed, 2**32])
            self._times_s.extend(_open_loop_times(phase.load, start_s, phase.duration_s, random))

    def due(self, now_s: float, num_in_engine: int) -> list[Arrival]:
        """The requests that have arrived by now and were not handed out yet."""
        load = self._phase.load
        if isinstance(load, ClosedLoop):
            elapsed = 0.0
            if self._phase.duration_s is not None:
                elapsed = (now_s - self._start_s) / self._phase.duration_s
            missing = load.concurrency(elapsed) - num_in_engine
            return [self._draw(now_s) for _ in range(missing)]
        arrived = []
        while self._times_s and self._times_s[0] <= now_s:
            arrived.append(self._draw(self._times_s.popleft()))
        return arrived

    def remaining(self) -> list[Arrival]:
        """At the phase's end: requests that arrived during its last step, not handed out yet."""
        arrived = [self._draw(time_s) for time_s in self._times_s]
        self._times_s.clear()
        return arrived

    def next_s(self, now_s: float) -> float | None:
        """The next time at which a request may arrive; None when none does in this phase."""
        load = self._phase.load
        if not isinstance(load, ClosedLoop):
            return self._times_s[0] if self._times_s else None
        if load.last is None or load.last <= load.first or self._phase.duration_s is None:
            return None
        first_step_s = 0.5 / (load.last - load.first) * self._phase.duration_s
        return max(self._start_s + first_step_s * (1.0 + 1e-9), now_s)

    def _draw(self, arrived_s: float) -> Arrival:
        number = self._num_drawn
        self._num_drawn += 1
        random = np.random.default_rng([*self._seed, number])
        return draw_arrival(self._phase, arrived_s, random, number)


def _open_loop_times(
    load: OpenLoop, start_s: float, duration_s: float, random: np.random.Generator
) -> list[float]:
    """Poisson instants, merged with the bursts, ascending."""
    num_poisson = int(random.poisson(load.requests_per_s * duration_s))
    times = (start_s + duration_s * random.random(num_poisson)).tolist()
    if load.burst_requests:
        num_bursts = int(np.ceil(duration_s / load.burst_period_s))
        for burst in range(num_bursts):
            times += [start_s + burst * load.burst_period_s] * load.burst_requests
    return sorted(times)
