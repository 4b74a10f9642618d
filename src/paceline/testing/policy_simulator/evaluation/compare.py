"""The arms compared with the best fixed length of each phase on the same requests.

The reference of a phase is the best of all held lengths *in that phase*: an oracle by sweep, which
no policy can know in advance. Chance hardly matters, since every arm meets the same requests with
the same draws (see `engine.batch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.testing.policy_simulator.evaluation.arms import (
    GOVERNED_ARMS,
    HeldLength,
    Table,
    governed_policy,
    held_name,
    run_trace,
    tune_table,
)
from paceline.testing.policy_simulator.evaluation.summary import Judge, RunSummary
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import Phase


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm against the references."""

    summary: RunSummary
    fraction_of_oracle: float
    """Tokens, over what the best held length of each phase yields in the same time."""
    mean_phase_fraction: float
    """The same by phase, then averaged: phases of little load weigh as much as crowded ones."""
    worst_phase_fraction: float
    """The lowest phase, against the better of no speculation and the best held length there."""
    worst_phase: str
    slowest_to_adapt: int | None
    """The most steps any phase but the first took to come near the best; None for never."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All arms on one trace and seed."""

    arms: tuple[ArmResult, ...]
    best_held_arm: str
    """The best single length for the whole trace, by mean phase fraction."""
    table: Table

    @property
    def best_single(self) -> ArmResult:
        """The held length with the most tokens over the trace, the baseline without a governor."""
        held = (arm for arm in self.arms if arm.summary.arm.startswith("K="))
        return max(held, key=lambda arm: arm.fraction_of_oracle)

    def arm(self, name: str) -> ArmResult:
        """The result of the arm called `name`."""
        return next(arm for arm in self.arms if arm.summary.arm == name)


def compare_arms(
    machine: Machine,
    trace: Sequence[Phase],
    *,
    seed: int = 0,
    disturbance: Disturbance | None = None,
    governed: Sequence[str] = GOVERNED_ARMS,
) -> Comparison:
    """Run no speculation, every held length, the table tuned on them, and the governed arms."""
    judge = Judge(machine)
    bare = machine.without_speculation()
    stock = run_trace(bare, HeldLength(0), trace, seed=seed, disturbance=disturbance)
    sweep = [
        run_trace(machine, HeldLength(length), trace, seed=seed, disturbance=disturbance)
        for length in machine.lengths
    ]
    lengths = machine.lengths
    table = [
        (lowest, highest, lengths[place])
        for lowest, highest, place in tune_table(sweep, machine.max_num_seqs)
    ]
    none = Judge(bare).summarize("none", stock)
    held = [
        judge.summarize(held_name(length), logs)
        for length, logs in zip(lengths, sweep, strict=True)
    ]
    others = []
    for name in ("table", *governed):
        policy = governed_policy(name, machine, table)
        logs = run_trace(machine, policy, trace, seed=seed, disturbance=disturbance)
        others.append(judge.summarize(name, logs))
    oracle = [
        max(phase.tokens_per_s for phase in phases)
        for phases in zip(*(summary.phases for summary in held), strict=True)
    ]
    floor = [max(rate, phase.tokens_per_s) for rate, phase in zip(oracle, none.phases, strict=True)]
    held_results = [_judge(summary, oracle, floor) for summary in held]
    return Comparison(
        arms=(
            _judge(none, oracle, floor),
            *held_results,
            *(_judge(summary, oracle, floor) for summary in others),
        ),
        best_held_arm=max(held_results, key=lambda arm: arm.mean_phase_fraction).summary.arm,
        table=table,
    )


def _judge(summary: RunSummary, oracle: list[float], floor: list[float]) -> ArmResult:
    phases = summary.phases
    reached = sum(phase.output_tokens for phase in phases)
    possible = sum(rate * phase.seconds for rate, phase in zip(oracle, phases, strict=True))
    fractions = [
        phase.tokens_per_s / rate for rate, phase in zip(oracle, phases, strict=True) if rate
    ]
    worst, worst_name = min(
        (phase.tokens_per_s / rate, phase.name)
        for rate, phase in zip(floor, phases, strict=True)
        if rate
    )
    steps = [phase.steps_to_adapt for phase in phases[1:] if phase.num_steps]
    adapted = [count for count in steps if count is not None]
    return ArmResult(
        summary=summary,
        fraction_of_oracle=reached / possible,
        mean_phase_fraction=sum(fractions) / len(fractions),
        worst_phase_fraction=worst,
        worst_phase=worst_name,
        slowest_to_adapt=max(adapted) if adapted and len(adapted) == len(steps) else None,
    )
