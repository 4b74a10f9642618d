"""Scores of arms against the best fixed length of each phase, chosen on the other seeds.

An oracle that takes the fixed length which was best in the very run that it is compared in also
takes that run's luck. This one leaves the run out:

    length(run, phase) = argmax over lengths of the sum of rates in that phase of all other runs

and an arm's score in a run is the time that the oracle takes for the trace's tokens over the arm's.
It needs two runs or more. An arm may exceed 1: it can change its length within a phase.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One seed's trace: phases in order, and the rates of every arm in them."""

    phases: tuple[str, ...]
    """Names, (num_phases,); equal ones are phases of equal conditions."""
    tokens: tuple[int, ...]
    """Tokens that each phase asks for, (num_phases,)."""
    rates: Mapping[str, tuple[float, ...]]
    """Tokens per second of each arm, (num_phases,)."""


@dataclass(frozen=True, slots=True)
class ArmScore:
    """An arm over all runs; every figure is a fraction of the oracle."""

    of_oracle: float
    """Mean over the runs."""
    spread: float
    """Standard deviation over the runs; they differ in texts, order and lengths of phases."""
    of_phases: Mapping[str, float]
    """Mean over the runs, of each phase."""
    worst_phase: str
    worst_spread: float
    """Standard error of the worst phase's mean."""
    of_mixed: float | None
    """As `of_oracle`, over the phases with several kinds of text; None without any."""


def oracle_arms(runs: Sequence[Run], left_out: int, arms: Sequence[str]) -> dict[str, str]:
    """The best of `arms` in each phase of the run number `left_out`, in the other runs.

    Of equal ones the first. ValueError where no other run has a phase of that name.
    """
    totals: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(arms, 0.0))
    for number, run in enumerate(runs):
        if number != left_out:
            for arm in arms:
                for phase, rate in zip(run.phases, run.rates[arm], strict=True):
                    totals[phase][arm] += rate
    missing = [phase for phase in runs[left_out].phases if phase not in totals]
    if missing:
        raise ValueError(f"no other run has a phase {missing[0]!r}; the oracle needs two runs")
    return {
        phase: max(arms, key=totals[phase].__getitem__)
        for phase in dict.fromkeys(runs[left_out].phases)
    }


def score_arms(runs: Sequence[Run], fixed_arms: Sequence[str]) -> dict[str, ArmScore]:
    """The score of every arm; the oracle chooses among `fixed_arms`."""
    oracles = []
    for number, run in enumerate(runs):
        best = oracle_arms(runs, number, fixed_arms)
        oracles.append(
            tuple(run.rates[best[phase]][index] for index, phase in enumerate(run.phases))
        )
    return {arm: _score(runs, oracles, arm) for arm in runs[0].rates}


def _score(runs: Sequence[Run], oracles: Sequence[tuple[float, ...]], arm: str) -> ArmScore:
    of_runs, of_mixed = [], []
    of_phases: dict[str, list[float]] = defaultdict(list)
    for run, oracle in zip(runs, oracles, strict=True):
        rates = run.rates[arm]
        mixed = [index for index, phase in enumerate(run.phases) if "+" in phase]
        of_runs.append(_of_oracle(run.tokens, rates, oracle, range(len(rates))))
        if mixed:
            of_mixed.append(_of_oracle(run.tokens, rates, oracle, mixed))
        for phase, rate, best in zip(run.phases, rates, oracle, strict=True):
            of_phases[phase].append(rate / best)
    means = {phase: statistics.mean(found) for phase, found in of_phases.items()}
    worst = min(means, key=means.__getitem__)
    found = of_phases[worst]
    return ArmScore(
        of_oracle=statistics.mean(of_runs),
        spread=statistics.pstdev(of_runs),
        of_phases=means,
        worst_phase=worst,
        worst_spread=statistics.pstdev(found) / math.sqrt(len(found)),
        of_mixed=statistics.mean(of_mixed) if of_mixed else None,
    )


def _of_oracle(
    tokens: Sequence[int],
    rates: Sequence[float],
    oracle: Sequence[float],
    phases: Sequence[int],
) -> float:
    oracle_s = sum(tokens[index] / oracle[index] for index in phases)
    return oracle_s / sum(tokens[index] / rates[index] for index in phases)
