"""Run the trial steps of a plan within a time budget.

A round runs each kind of one size once. The first use of a shape may compile or allocate, so the
first pass over the sizes, small to large, runs two rounds of each; later passes add one. What the
budget drops is the repeats, and then the largest sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from paceline.runtime.engine.calibration.cost_samples import CostSamples
from paceline.runtime.engine.calibration.plan import Plan, StepKind, fit_plan

_FIRST_ROUNDS = 2
_MAX_ROUNDS = 6
_CONTEXT_ROUNDS = 3
_PROBE_STEPS = 3
_CONTEXT_SHARE = 0.15
"""Of the budget, kept for the cost of context."""


class TrialSteps(Protocol):
    """Steps of trial requests in a real engine."""

    def begin(self, num_requests: int, context_tokens: int) -> None:
        """Replace the trial requests by that many new ones. Runs a step; raises what it raises."""
        ...

    def run(self, verified_tokens: int, draft_length: int) -> float:
        """Run one step of all trial requests; return its seconds. It leaves their state as it was,
        so that equal steps may follow each other."""
        ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured within the budget."""

    samples: CostSamples
    seconds: float
    dropped_sizes: tuple[int, ...]
    """Sizes of the plan for which there was no time."""


def measure(
    steps: TrialSteps, plan: Plan, *, budget_s: float, clock: Callable[[], float]
) -> Measurement:
    """Measure what fits the budget, with a coarser plan where steps are slow: at least the smallest
    size.

    The budget may be exceeded by some rounds, because the time of a size is only estimated before
    its first round.
    """
    started_s = clock()
    steps.begin(plan.sizes[0], plan.context_tokens)
    one_request_s = min(steps.run(0, plan.resting_length) for _ in range(_PROBE_STEPS))
    plan = fit_plan(plan, one_request_s=one_request_s, budget_s=budget_s)
    samples = CostSamples(plan)
    table_end_s = started_s + budget_s * (1.0 if plan.long is None else 1.0 - _CONTEXT_SHARE)
    sizes = _first_pass(steps, samples, end_s=table_end_s, clock=clock)
    for _ in range(_MAX_ROUNDS - _FIRST_ROUNDS):
        for size in sizes:
            if clock() + samples.round_s(size) <= table_end_s:
                steps.begin(size, plan.context_tokens)
                _round(steps, samples, plan.kinds_of(size))
    if plan.long is not None:
        _measure_context(steps, samples, end_s=started_s + budget_s, clock=clock)
    return Measurement(samples, clock() - started_s, plan.sizes[len(sizes) :])


def _first_pass(
    steps: TrialSteps, samples: CostSamples, *, end_s: float, clock: Callable[[], float]
) -> tuple[int, ...]:
    """Run the first rounds of each size until the next is expected not to fit."""
    plan = samples.plan
    for index, size in enumerate(plan.sizes):
        if index and clock() + _FIRST_ROUNDS * _expected_round_s(samples, index) > end_s:
            return plan.sizes[:index]
        steps.begin(size, plan.context_tokens)
        for _ in range(_FIRST_ROUNDS):
            _round(steps, samples, plan.kinds_of(size))
    return plan.sizes


def _expected_round_s(samples: CostSamples, index: int) -> float:
    """Seconds of a round of a size that was not measured: linear in the size, from the last two."""
    sizes = samples.plan.sizes
    last, last_s = sizes[index - 1], samples.round_s(sizes[index - 1])
    if index == 1:
        return last_s * sizes[index] / last
    before, before_s = sizes[index - 2], samples.round_s(sizes[index - 2])
    slope_s = max(last_s - before_s, 0.0) / (last - before)
    return last_s + slope_s * (sizes[index] - last)


def _round(steps: TrialSteps, samples: CostSamples, kinds: tuple[StepKind, ...]) -> None:
    for kind in kinds:
        samples.add(kind, steps.run(kind.verified_tokens, kind.draft_length))


def _measure_context(
    steps: TrialSteps, samples: CostSamples, *, end_s: float, clock: Callable[[], float]
) -> None:
    """Sample a step that only decodes and one that also drafts, at both contexts in turn."""
    pairs = samples.plan.context_kinds()
    expected_s = _expected_context_s(samples)
    for _ in range(_CONTEXT_ROUNDS):
        started_s = clock()
        if expected_s is None or started_s + expected_s > end_s:
            return
        for kinds in pairs:
            steps.begin(kinds[0].num_requests, kinds[0].context_tokens)
            for _ in range(2):
                _round(steps, samples, kinds)
        expected_s = clock() - started_s


def _expected_context_s(samples: CostSamples) -> float | None:
    """Seconds of a round at both contexts, without what the longer one adds; None where no size as
    large was measured."""
    plan = samples.plan
    if plan.long is None:
        return None
    larger = [size for size in samples.sizes if size >= plan.long.num_requests]
    if not larger:
        return None
    pair = (plan.kind(larger[0], 0, 0), plan.kind(larger[0], 0, plan.longest))
    return 4 * sum(map(samples.typical_s, pair))
