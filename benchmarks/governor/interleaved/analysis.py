"""Compare policies with the oracle, the best single length and the better of off and fixed.

Every reference is chosen on other repeats than the one it is scored on: the best of several noisy
arms, scored on the data that made it the best, is several percent too good. With a single repeat
there are no others, and the references are chosen on that repeat (`is_cross_fitted` is False).
To choose, the rates of a phase and repeat are divided by their geometric mean over the candidates,
so that a slow moment of the machine, which strikes all arms, does not weigh on the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.governor.interleaved.measured import Floats, Ints, Measured


@dataclass(frozen=True, slots=True)
class Range:
    """A figure over repeats: its mean, its lowest and highest value, and their number."""

    mean: float
    lowest: float
    highest: float
    n: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One policy against the references; ratios of tokens per second."""

    arm: str
    of_oracle: Range
    """Over the whole trace: all tokens / all seconds."""
    of_oracle_by_phase: Range
    """Mean over the phases, each counted alike."""
    of_oracle_same_data: Range
    """As `of_oracle`, with the oracle chosen on the repeat itself: an upper bound of the oracle."""
    of_single: Range
    oracle_of_single: Range
    lead_share: float
    """(policy / single - 1) / (oracle / single - 1), from the means over repeats."""
    of_floor: tuple[Range, ...]
    """By phase: relative to the better of no speculation and the best fixed length."""

    @property
    def worst_phase(self) -> int:
        return int(np.argmin([one.mean for one in self.of_floor]))


@dataclass(frozen=True, slots=True)
class Findings:
    """The references, the control and every policy."""

    is_cross_fitted: bool
    oracle: Ints
    """Index into `candidates`, (num_repeats, num_phases)."""
    candidates: tuple[str, ...]
    single: tuple[str, ...]
    """The best single length by repeat, chosen on the others."""
    control: tuple[Range, ...] | None
    """By phase: the second control / the first. None with fewer than two controls."""
    control_over_trace: Range | None
    policies: tuple[Finding, ...]


def analyse(measured: Measured) -> Findings:
    """Compare every policy. ValueError when no fixed length was measured."""
    fixed = list(measured.fixed)
    if not fixed:
        raise ValueError("no fixed length was measured, so there is nothing to compare with")
    candidates = [*measured.controls[:1], *fixed]
    rates = np.stack([measured.rates[arm] for arm in candidates])
    oracle_index = choose_on_others(rates)
    oracle = compose(rates, oracle_index)
    same_data = rates.max(axis=0)
    single_index = choose_single_on_others(measured, fixed)
    single = np.stack(
        [measured.rates[fixed[index]][repeat] for repeat, index in enumerate(single_index)]
    )
    trace = measured.trace_rate
    oracle_of_single = trace(oracle) / trace(single)
    found = []
    for arm in measured.policies:
        mine = measured.rates[arm]
        of_single = trace(mine) / trace(single)
        lead = oracle_of_single.mean() - 1
        found.append(
            Finding(
                arm=arm,
                of_oracle=range_of(trace(mine) / trace(oracle)),
                of_oracle_by_phase=range_of((mine / oracle).mean(axis=1)),
                of_oracle_same_data=range_of(trace(mine) / trace(same_data)),
                of_single=range_of(of_single),
                oracle_of_single=range_of(oracle_of_single),
                lead_share=float((of_single.mean() - 1) / lead) if lead > 0 else float("nan"),
                of_floor=ranges_of(mine / oracle),
            )
        )
    control, over_trace = None, None
    if len(measured.controls) > 1:
        first, second = (measured.rates[arm] for arm in measured.controls[:2])
        control = ranges_of(second / first)
        over_trace = range_of(trace(second) / trace(first))
    return Findings(
        is_cross_fitted=measured.num_repeats > 1,
        oracle=oracle_index,
        candidates=tuple(candidates),
        single=tuple(fixed[index] for index in single_index),
        control=control,
        control_over_trace=over_trace,
        policies=tuple(found),
    )


def choose_on_others(rates: Floats) -> Ints:
    """The best candidate of each phase and repeat, chosen on the other repeats.

    `rates` is (num_candidates, num_repeats, num_phases); the result (num_repeats, num_phases).
    """
    chosen: Ints = _on_others(relative(rates)).argmax(axis=0)
    return chosen


def choose_single_on_others(measured: Measured, arms: Sequence[str]) -> list[int]:
    """By repeat, the arm with the highest rate over the trace of the other repeats."""
    rates = np.stack([measured.trace_rate(measured.rates[arm]) for arm in arms])[:, :, None]
    return [int(index) for index in choose_on_others(rates)[:, 0]]


def relative(rates: Floats) -> Floats:
    """The logarithm of each rate over the geometric mean of the candidates; the shape stays."""
    logs = np.log(rates)
    found: Floats = logs - logs.mean(axis=0)
    return found


def _on_others(values: Floats) -> Floats:
    """Axis 1 summed over the other repeats; itself when there is only one."""
    if values.shape[1] == 1:
        return values
    found: Floats = values.sum(axis=1, keepdims=True) - values
    return found


def compose(rates: Floats, chosen: Ints) -> Floats:
    """The rates of the chosen candidates, (num_repeats, num_phases)."""
    found: Floats = np.take_along_axis(rates, chosen[None], axis=0)[0]
    return found


def range_of(values: Floats) -> Range:
    """Mean, lowest and highest of (num_repeats,) values."""
    return Range(float(values.mean()), float(values.min()), float(values.max()), len(values))


def ranges_of(values: Floats) -> tuple[Range, ...]:
    """By phase, from (num_repeats, num_phases) values."""
    return tuple(range_of(column) for column in values.T)
