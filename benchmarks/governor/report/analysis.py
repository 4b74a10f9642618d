"""Compare each arm with the oracle, the best single length and the best tables.

The oracle of a phase is the fixed length with the highest median rate in it. Its tokens are those
of the same repeat, so that drift of the machine cancels. Taking the best of several noisy lengths
favours the oracle slightly, never the arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.governor.report.measured import Estimate, Floats, Measured, estimate


@dataclass(frozen=True, slots=True)
class PhaseFinding:
    """One arm in one phase."""

    phase: str
    rate: Estimate
    of_oracle: Estimate
    of_floor: Estimate
    """Relative to the better of no speculation and the best fixed length."""


@dataclass(frozen=True, slots=True)
class ArmFinding:
    """One arm over the trace. Ratios compare tokens of the same repeat."""

    arm: str
    rate: Estimate
    of_oracle: Estimate
    of_oracle_by_phase: Estimate
    """The mean of the phases' ratios: phases with little load count as much as busy ones."""
    of_best_single: Estimate
    of_best_single_by_phase: Estimate
    of_table: Estimate | None
    """None without the arm `table`."""
    of_table_by_phase: Estimate | None
    of_offline_table: Estimate
    of_offline_table_by_phase: Estimate
    phases: tuple[PhaseFinding, ...]

    @property
    def worst_phase(self) -> PhaseFinding:
        return min(self.phases, key=lambda finding: finding.of_floor.mean)


@dataclass(frozen=True, slots=True)
class Findings:
    """All arms, and the references they are compared with."""

    oracle_arms: tuple[str, ...]
    """By phase."""
    floor_arms: tuple[str, ...]
    best_single: str
    """The fixed length with the most tokens over the trace."""
    best_single_by_phase: str
    """The fixed length with the highest mean of its phases' ratios to the oracle."""
    offline_table: dict[int, str]
    """Concurrency to the fixed length with the most tokens there, over all repeats measured."""
    arms: tuple[ArmFinding, ...]

    def arm(self, name: str) -> ArmFinding:
        return next(arm for arm in self.arms if arm.arm == name)


def analyse(measured: Measured) -> Findings:
    """Compare every arm. ValueError when no fixed length was measured."""
    fixed = measured.fixed_arms
    if not fixed:
        raise ValueError("no fixed length was measured, so there is no oracle to compare with")
    oracle_arms = best_by_phase(measured, fixed)
    with_none = [arm for arm in (*fixed, "none") if arm in measured.arms]
    floor_arms = best_by_phase(measured, with_none)
    oracle = _composed(measured, oracle_arms)
    single = max(fixed, key=lambda arm: float(np.median(measured.tokens[arm].sum(axis=1))))
    by_phase = max(fixed, key=lambda arm: _phase_mean(measured.tokens[arm], oracle).mean())
    table = offline_table(measured)
    references = _References(
        oracle=oracle,
        floor=_composed(measured, floor_arms),
        single=measured.tokens[single],
        single_by_phase=measured.tokens[by_phase],
        table=measured.tokens.get("table"),
        offline=_composed(measured, [table[c] for c in measured.concurrency]),
    )
    arms = tuple(_find(measured, arm, references) for arm in measured.arms)
    return Findings(tuple(oracle_arms), tuple(floor_arms), single, by_phase, table, arms)


def best_by_phase(measured: Measured, arms: Sequence[str]) -> list[str]:
    """The arm with the highest median of tokens in each phase; the first one on a tie."""
    medians = np.stack([np.median(measured.tokens[arm], axis=0) for arm in arms])
    return [arms[index] for index in medians.argmax(axis=0)]


def offline_table(measured: Measured) -> dict[int, str]:
    """The best table by concurrency, tuned on the same runs that it is compared on.

    No offline tuner can do better with a table by load, so this is a stricter baseline than the arm
    `table`.
    """
    table = {}
    for load in sorted(set(measured.concurrency)):
        here = [index for index, c in enumerate(measured.concurrency) if c == load]
        table[load] = max(
            measured.fixed_arms, key=lambda arm: float(measured.tokens[arm][:, here].sum())
        )
    return table


@dataclass(frozen=True, slots=True)
class _References:
    """Reference tokens, each (num_repeats, num_phases)."""

    oracle: Floats
    floor: Floats
    single: Floats
    single_by_phase: Floats
    table: Floats | None
    offline: Floats


def _find(measured: Measured, arm: str, references: _References) -> ArmFinding:
    tokens, oracle = measured.tokens[arm], references.oracle
    by_phase = _phase_mean(tokens, oracle)

    def over_trace(reference: Floats) -> Estimate:
        return estimate(tokens.sum(axis=1) / np.maximum(reference.sum(axis=1), 1.0))

    def over_phases(reference: Floats) -> Estimate:
        return estimate(by_phase / np.maximum(_phase_mean(reference, oracle), 1e-9))

    table = references.table
    return ArmFinding(
        arm=arm,
        rate=estimate(tokens.sum(axis=1) / measured.seconds.sum()),
        of_oracle=over_trace(oracle),
        of_oracle_by_phase=estimate(by_phase),
        of_best_single=over_trace(references.single),
        of_best_single_by_phase=over_phases(references.single_by_phase),
        of_table=None if table is None else over_trace(table),
        of_table_by_phase=None if table is None else over_phases(table),
        of_offline_table=over_trace(references.offline),
        of_offline_table_by_phase=over_phases(references.offline),
        phases=tuple(
            PhaseFinding(
                phase=name,
                rate=estimate(measured.rates(arm)[:, number]),
                of_oracle=estimate(_ratio(tokens, oracle)[:, number]),
                of_floor=estimate(_ratio(tokens, references.floor)[:, number]),
            )
            for number, name in enumerate(measured.phases)
        ),
    )


def _composed(measured: Measured, arms: Sequence[str]) -> Floats:
    """Phase i of arm `arms[i]`, for every repeat: (num_repeats, num_phases)."""
    columns = [measured.tokens[arm][:, number] for number, arm in enumerate(arms)]
    return np.stack(columns, axis=1)


def _ratio(tokens: Floats, reference: Floats) -> Floats:
    """tokens / reference; a reference without tokens counts as one token."""
    return np.asarray(tokens / np.maximum(reference, 1.0))


def _phase_mean(tokens: Floats, oracle: Floats) -> Floats:
    """(num_repeats,)"""
    return np.asarray(_ratio(tokens, oracle).mean(axis=1))
