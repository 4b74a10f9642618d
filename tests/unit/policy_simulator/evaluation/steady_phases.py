"""Single phases with a third of the tokens from prompts, and where the policy's lengths were."""

from __future__ import annotations

import numpy as np

from paceline.testing.policy_simulator.engine.batch import Bools
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.arms import governed_policy, run_trace
from paceline.testing.policy_simulator.evaluation.summary import Judge
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

# As in the named traces.
PREDICTABLE = DraftTruth((0.90, 0.92, 0.93))
MIDDLING = DraftTruth((0.68, 0.66, 0.64))
HARD = DraftTruth((0.25, 0.20))


def run_goodput(
    machine: Machine,
    num_requests: int,
    truth: DraftTruth,
    *,
    duration_s: float | None = None,
    num_steps: int | None = None,
    disturbance: Disturbance | None = None,
    seed: int = 1,
) -> StepLog:
    """One phase under the default policy."""
    kind = TrafficClass("text", Lengths(32, 192), Lengths(64, 384), truth)
    phase = Phase("steady", ClosedLoop(num_requests), (kind,), duration_s, num_steps)
    policy = governed_policy("goodput", machine, [])
    [log] = run_trace(machine, policy, [phase], seed=seed, disturbance=disturbance)
    return log


def fraction_of_best(machine: Machine, log: StepLog, after_step: int) -> float:
    """The steady rate of the lengths used, over the best steady rate, by time; from the truth."""
    fractions, seconds = Judge(machine).steady_fractions(log)
    weights = seconds[after_step:]
    return float((fractions[after_step:] * weights).sum() / weights.sum())


def is_between(log: StepLog, start_s: float, end_s: float) -> Bools:
    """Whether each step ended in this time."""
    ended_s = np.cumsum(log.duration_s)
    between: Bools = (ended_s >= start_s) & (ended_s < end_s)
    return between
