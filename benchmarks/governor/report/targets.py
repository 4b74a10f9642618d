"""The targets of the governor, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.governor.report.adaptation import Adaptation
from benchmarks.governor.report.analysis import ArmFinding
from benchmarks.governor.report.measured import Estimate
from benchmarks.governor.report.tables import render_percent

OF_ORACLE = 0.97
OF_BEST_SINGLE = 1.15
OF_TABLE = 1.05
OF_FLOOR = 0.98
MAX_STEPS_TO_ADAPT = 50
MAX_EXPLORATION_LOSS = 0.005


class Verdict(StrEnum):
    """Whether a target is met, and in how many of the repeats."""

    MET = "met"
    LIKELY = "met on average, but not in every repeat"
    SHORT = "missed on average, but met in some repeats"
    MISSED = "missed"
    SINGLE = "not decidable from one repeat"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the table of targets."""

    text: str
    target: str
    measured: str
    verdict: Verdict


def judge(found: Estimate, target: float) -> Verdict:
    """Whether the figure is at least `target`.

    >>> judge(Estimate(0.98, (0.96, 1.0)), 0.97).name
    'LIKELY'
    """
    if not found.has_range:
        return Verdict.SINGLE
    if found.mean >= target:
        return Verdict.MET if found.lowest >= target else Verdict.LIKELY
    return Verdict.MISSED if found.highest < target else Verdict.SHORT


def claims_of(arm: ArmFinding, adapted: Sequence[Adaptation]) -> list[Claim]:
    """Every target that a run on the real engine can decide, for one arm."""
    worst = arm.worst_phase
    rows = [
        ("of the oracle, tokens over the trace", OF_ORACLE, arm.of_oracle),
        ("of the oracle, mean of the phases", OF_ORACLE, arm.of_oracle_by_phase),
        ("of the best single length, over the trace", OF_BEST_SINGLE, arm.of_best_single),
        ("the same, mean of the phases", OF_BEST_SINGLE, arm.of_best_single_by_phase),
        ("of the tuned table, over the trace", OF_TABLE, arm.of_table),
        ("the same, mean of the phases", OF_TABLE, arm.of_table_by_phase),
        ("of the best offline-tuned table, over the trace", OF_TABLE, arm.of_offline_table),
        ("the same, mean of the phases", OF_TABLE, arm.of_offline_table_by_phase),
        (
            f"worst phase ({worst.phase}), of the better of none and best K",
            OF_FLOOR,
            worst.of_floor,
        ),
    ]
    claims = [
        Claim(
            text,
            f"≥ {target:.0%}",
            "-" if found is None else render_percent(found),
            Verdict.UNKNOWN if found is None else judge(found, target),
        )
        for text, target, found in rows
    ]
    return [*claims, _adaptation_claim(adapted)]


def _adaptation_claim(adapted: Sequence[Adaptation]) -> Claim:
    shifts = adapted[1:]
    never = [a.phase for a in shifts if a.near_best_s is None]
    steps = [a.near_best_steps for a in shifts if a.near_best_steps is not None]
    text = "slowest shift, steps to 95 % of the oracle"
    target = f"≤ {MAX_STEPS_TO_ADAPT}"
    if never:
        return Claim(text, target, f"never in: {', '.join(never)}", Verdict.MISSED)
    if not steps:
        return Claim(text, target, "-", Verdict.UNKNOWN)
    verdict = Verdict.MET if max(steps) <= MAX_STEPS_TO_ADAPT else Verdict.MISSED
    return Claim(text, target, f"{max(steps):.0f}", verdict)
