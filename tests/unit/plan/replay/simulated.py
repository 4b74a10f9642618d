"""Traffic with known truth on a simulated engine, and recordings of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from paceline.foundation.recording.reading import Recording
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.arms import HeldLength
from paceline.testing.policy_simulator.evaluation.measured_costs import measured_costs
from paceline.testing.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.testing.policy_simulator.machines.profiles import load_profile
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TimedLoop,
    TimedRequest,
    TrafficClass,
)

MACHINE = load_profile("cpu-twin").machine
_ANY = Lengths(1, 1)


def classes(*, is_other_drafter: bool = False) -> tuple[TrafficClass, ...]:
    """Code, whose drafts are good, and chat, whose drafts are not; the other drafter is better."""
    code, chat = ((0.85, 0.8), (0.6, 0.5)) if not is_other_drafter else ((0.93, 0.9), (0.75, 0.7))
    return (
        TrafficClass("code", _ANY, _ANY, DraftTruth(code, 0.5)),
        TrafficClass("chat", _ANY, _ANY, DraftTruth(chat, 0.5)),
    )


def requests(count: int, seed: int, per_s: float = 1.0) -> tuple[TimedRequest, ...]:
    """Poisson arrivals of both classes."""
    random = np.random.default_rng(seed)
    times_s = np.cumsum(random.exponential(1.0 / per_s, count))
    return tuple(
        TimedRequest(
            float(time_s),
            "code" if random.random() < 0.5 else "chat",
            int(random.integers(50, 300)),
            int(random.integers(40, 120)),
        )
        for time_s in times_s
    )


@cache
def recorded(
    *, is_other_drafter: bool = False, count: int = 250, per_s: float = 1.5, seed: int = 1
) -> Recording:
    """Requests served under the policy goodput."""
    named = requests(count, seed, per_s)
    phase = Phase(
        "recorded",
        TimedLoop(),
        classes(is_other_drafter=is_other_drafter),
        duration_s=named[-1].arrived_s + 20.0,
        requests=named,
    )
    policy = create_policy("goodput", max_draft_length=MACHINE.max_draft_length)
    _, recording = record_phase(MACHINE, policy, phase, policy_name="goodput", seed=seed)
    return recording


@cache
def recorded_at_one_length(*, has_table: bool) -> Recording:
    """The same requests at draft length 8, with the table of costs of an engine that measured it on
    a day when it was 15 % slower."""
    named = requests(250, 1, 1.5)
    phase = Phase("recorded", TimedLoop(), classes(), named[-1].arrived_s + 20.0, requests=named)
    table = measured_costs(MACHINE)
    slower = replace(
        table,
        verify_s=tuple(tuple(1.15 * one for one in row) for row in table.verify_s),
        draft_s=tuple(tuple(1.15 * one for one in row) for row in table.draft_s),
    )
    _, recording = record_phase(
        MACHINE, HeldLength(8), phase, seed=1, cost_table=slower if has_table else None
    )
    return recording


def held_out_tokens_per_s(
    num_requests: int, length: int, *, is_other_drafter: bool = False, seconds: float = 50.0
) -> float:
    """The truth: other requests of the same kinds, always this many, at this length."""
    engine = SimulatedEngine(MACHINE, HeldLength(length), seed=99)
    kinds = classes(is_other_drafter=is_other_drafter)

    def phase(name: str, duration_s: float, seed: int) -> Phase:
        named = requests(3000, seed)
        return Phase(name, ClosedLoop(num_requests), kinds, duration_s, requests=named)

    engine.run(phase("warm-up", 15.0, 50))
    return engine.run(phase("held out", seconds, 51)).tokens_per_s
