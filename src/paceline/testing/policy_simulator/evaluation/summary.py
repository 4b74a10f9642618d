"""The result of a policy in each phase, compared with the oracle.

Two measures. *Steady*: the steady rate of each step's draft length over the best steady rate, both
from the truth and at the step's own number of requests. It is free of chance, so it shows how soon
after a shift a policy is near the best, and the cost of exploration. *Realised*: measured tokens
per second, catching up and transitions included; `compare` relates them to a held length on the
same requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.testing.policy_simulator.engine.batch import Bools, Floats, Ints
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.oracle import Rate, steady_rates
from paceline.testing.policy_simulator.machines.machine import Machine

NEAR_BEST = 0.95
"""The target for adapting: 95 % of the oracle."""
_WINDOW_STEPS = 16
"""Adapted means near the best on average over this many steps; one probe may interrupt it."""
_LONGEST_EXCURSION_STEPS = 8
"""Leaving a length for at most this many steps counts as exploring; longer, as switching."""


@dataclass(frozen=True, slots=True)
class PhaseSummary:
    """One phase under one policy. None where the phase had no step to compute it from."""

    name: str
    seconds: float
    num_steps: int
    output_tokens: int
    tokens_per_s: float
    steady_fraction: float | None
    """Fraction of the best steady rate, by time."""
    best_length: int | None
    """The oracle's best length at the most common number of requests."""
    common_length: int | None
    """The policy's most common draft length."""
    steps_to_adapt: int | None
    """Steps until the steady fraction stays at 95 % on average; None for never."""
    accepted_fraction: float | None
    off_fraction: float
    """Fraction of the time in steps that draft nothing."""
    exploring_fraction: float
    """Fraction of the time in excursions: a few steps at another length, and back."""
    exploring_loss_fraction: float
    """Fraction of the time that excursions lost against the length they left."""
    switching_fraction: float
    """Fraction of the time in steps whose draft length differs from the one before, without
    excursions."""
    inter_chunk_p50_s: float | None
    inter_chunk_p99_s: float | None
    first_token_p50_s: float | None
    first_token_p99_s: float | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A whole trace under one policy."""

    arm: str
    phases: tuple[PhaseSummary, ...]
    tokens_per_s: float
    inter_chunk_p99_s: float | None


class Judge:
    """Summarises runs on one machine; the oracle's rates are computed once per (phase, load)."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._rates: dict[tuple[int, int], list[Rate]] = {}
        self._phases: list[object] = []

    def summarize(self, arm: str, logs: Sequence[StepLog]) -> RunSummary:
        """Every phase of a run, in order."""
        seconds = sum(log.seconds for log in logs)
        tokens = sum(int(log.output_tokens.sum()) for log in logs)
        waits = np.concatenate([log.inter_chunk_s for log in logs])
        return RunSummary(
            arm=arm,
            phases=tuple(self._summarize_phase(log) for log in logs),
            tokens_per_s=tokens / seconds if seconds else 0.0,
            inter_chunk_p99_s=_percentile(waits, 99),
        )

    def steady_fractions(self, log: StepLog) -> tuple[Floats, Floats]:
        """Per step, (num_steps,) each: its length's steady rate over the best, and the seconds
        a steady step at its length takes."""
        fractions, seconds = np.ones(log.num_steps), np.zeros(log.num_steps)
        for num_requests in np.unique(log.num_requests):
            rates = self._rates_for(log, int(num_requests))
            best = max(rate.tokens_per_s for rate in rates)
            share = np.asarray([rate.tokens_per_s / best for rate in rates])
            step_s = np.asarray([rate.step_s for rate in rates])
            here = log.num_requests == num_requests
            lengths = [rate.draft_length for rate in rates]
            place = np.minimum(np.searchsorted(lengths, log.draft_length[here]), len(rates) - 1)
            fractions[here], seconds[here] = share[place], step_s[place]
        return fractions, seconds

    def _rates_for(self, log: StepLog, num_requests: int) -> list[Rate]:
        if not any(phase is log.phase for phase in self._phases):
            self._phases.append(log.phase)
        number = next(i for i, phase in enumerate(self._phases) if phase is log.phase)
        key = (number, num_requests)
        if key not in self._rates:
            self._rates[key] = steady_rates(log.phase, num_requests, self._machine)
        return self._rates[key]

    def _summarize_phase(self, log: StepLog) -> PhaseSummary:
        fractions, steady_s = self.steady_fractions(log)
        total_s = float(steady_s.sum())
        busy_s = max(float(log.duration_s.sum()), 1e-12)
        excursions = find_excursions(log.draft_length)
        explored_s = _excursion_loss_s(fractions, steady_s, excursions)
        changed = np.zeros(log.num_steps, dtype=bool)
        changed[1:] = log.draft_length[1:] != log.draft_length[:-1]
        back = np.zeros(log.num_steps, dtype=bool)
        back[1:] = excursions[:-1]
        switched = changed & ~excursions & ~back
        drafted = int(log.drafted_tokens.sum())
        best_length = None
        if log.num_steps:
            rates = self._rates_for(log, _most_common(log.num_requests))
            best_length = max(rates, key=lambda rate: rate.tokens_per_s).draft_length
        return PhaseSummary(
            name=log.phase.name,
            seconds=log.seconds,
            num_steps=log.num_steps,
            output_tokens=int(log.output_tokens.sum()),
            tokens_per_s=log.tokens_per_s,
            steady_fraction=float((fractions * steady_s).sum()) / total_s if total_s else None,
            best_length=best_length,
            common_length=_most_common(log.draft_length) if log.num_steps else None,
            steps_to_adapt=steps_to_adapt(fractions),
            accepted_fraction=int(log.accepted_tokens.sum()) / drafted if drafted else None,
            off_fraction=float(log.duration_s[log.draft_length == 0].sum()) / busy_s,
            exploring_fraction=float(log.duration_s[excursions].sum()) / busy_s,
            exploring_loss_fraction=explored_s / max(total_s, 1e-12),
            switching_fraction=float(log.duration_s[switched].sum()) / busy_s,
            inter_chunk_p50_s=_percentile(log.inter_chunk_s, 50),
            inter_chunk_p99_s=_percentile(log.inter_chunk_s, 99),
            first_token_p50_s=_percentile(log.first_token_s, 50),
            first_token_p99_s=_percentile(log.first_token_s, 99),
        )


def steps_to_adapt(fractions: Floats) -> int | None:
    """Steps until a window, and everything after it, is near the best on average; None for never.

    Everything after it counts too, since the load may shift within a phase.

    >>> steps_to_adapt(np.asarray([0.5] * 10 + [1.0] * 30))  # a window of 16 tolerates one 0.5
    9
    """
    num_windows = len(fractions) - _WINDOW_STEPS + 1
    if num_windows < 1:
        return None
    sums = np.concatenate(([0.0], np.cumsum(fractions)))
    window = (sums[_WINDOW_STEPS:] - sums[:-_WINDOW_STEPS]) / _WINDOW_STEPS
    rest = (sums[-1] - sums[:num_windows]) / (len(fractions) - np.arange(num_windows))
    near = np.flatnonzero((window >= NEAR_BEST) & (rest >= NEAR_BEST))
    return int(near[0]) if len(near) else None


def find_excursions(lengths: Ints) -> Bools:
    """Steps at other lengths, few in a row, between two steps at one same length.

    >>> find_excursions(np.asarray([3, 3, 4, 3, 3, 1, 1])).tolist()
    [False, False, True, False, False, False, False]
    """
    found = np.zeros(len(lengths), dtype=bool)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(lengths)) + 1, [len(lengths)]))
    index = 1  # of the stretch that may begin an excursion
    while index < len(starts) - 1:
        home = lengths[starts[index] - 1]
        after = index
        while (
            after < len(starts) - 1
            and lengths[starts[after]] != home
            and starts[after + 1] - starts[index] <= _LONGEST_EXCURSION_STEPS
        ):
            after += 1
        if after > index and after < len(starts) - 1 and lengths[starts[after]] == home:
            found[starts[index] : starts[after]] = True
            index = after
        index += 1
    return found


def _excursion_loss_s(fractions: Floats, steady_s: Floats, excursions: Bools) -> float:
    """Time lost in excursions against the step before each; a gain counts as zero."""
    lost_s, home = 0.0, 1.0
    for fraction, step_s, away in zip(fractions, steady_s, excursions, strict=True):
        if away:
            lost_s += max(home - fraction, 0.0) / home * step_s
        else:
            home = fraction
    return lost_s


def _most_common(values: Ints) -> int:
    return int(np.bincount(values).argmax())


def _percentile(values: Floats, percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None
