"""The policies that are compared, and the table that an offline tuner would make.

Fixed lengths are held by a policy of the simulator itself, so that the reference shares no code
with the governor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.measured_costs import measured_costs
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import Phase

Table = list[tuple[int, int, int]]
"""vLLM's form: (lowest number of requests, highest, draft length)."""

GOVERNED_ARMS = ("threshold", "goodput")


class HeldLength:
    """Always the same draft length."""

    def __init__(self, draft_length: int) -> None:
        self._draft_length = draft_length

    def observe(self, sample: StepSample) -> None:
        """Ignore the sample."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(min(self._draft_length, load.max_draft_length), "held")


def run_trace(
    machine: Machine,
    policy: Policy,
    trace: Sequence[Phase],
    *,
    seed: int,
    disturbance: Disturbance | None = None,
) -> list[StepLog]:
    """Every phase in turn on one engine."""
    engine = SimulatedEngine(machine, policy, seed=seed, disturbance=disturbance)
    return [engine.run(phase) for phase in trace]


def held_name(draft_length: int) -> str:
    """The name of the arm that holds this length."""
    return f"K={draft_length}"


def governed_policy(arm: str, machine: Machine, table: Table) -> Policy:
    """The governor's policy for an arm: `table`, or one of `GOVERNED_ARMS`."""
    name = "schedule" if arm == "table" else arm
    return create_policy(
        name,
        max_draft_length=machine.max_draft_length,
        cost_table=measured_costs(machine),
        schedule=table,
    )


def tune_table(sweep: Sequence[Sequence[StepLog]], max_num_seqs: int) -> Table:
    """The best length for every doubling range of batch sizes, from one run per held length.

    `sweep[k]` are the logs at the k-th length, and the table has k. The result is what a careful
    operator gets from a sweep on the same traffic: each range takes the length with the highest
    rate there, over all phases. A range without steps takes the length of the range before it.
    """
    num_ranges = max_num_seqs.bit_length()
    tokens = np.zeros((len(sweep), num_ranges))
    seconds = np.zeros((len(sweep), num_ranges))
    for length, logs in enumerate(sweep):
        for log in logs:
            index = np.floor(np.log2(log.num_requests)).astype(int)
            tokens[length] += np.bincount(index, log.output_tokens, num_ranges)
            seconds[length] += np.bincount(index, log.duration_s, num_ranges)
    table: Table = []
    best = 0
    for index in range(num_ranges):
        if seconds[:, index].any():
            rates = tokens[:, index] / np.maximum(seconds[:, index], 1e-12)
            best = int(rates.argmax())
        table.append((2**index, 2 ** (index + 1) - 1, best))
    return table
