"""A table of steps, some of which were disturbed."""

from __future__ import annotations

import pytest

from paceline.runtime.engine.calibration.cost_samples import CostSamples
from paceline.runtime.engine.calibration.plan import Plan


def plan() -> Plan:
    return Plan(sizes=(1, 2, 4), lengths=(0, 1, 2), context_tokens=256, long=None, resting_length=0)


def samples_of(steps: dict[tuple[int, int, int], float]) -> CostSamples:
    samples = CostSamples(plan())
    for (num_requests, width, length), seconds in steps.items():
        samples.add(samples.plan.kind(num_requests, width, length), seconds)
    return samples


ONE = {(1, 0, 0): 1.0, (1, 1, 0): 2.0, (1, 2, 0): 3.0, (1, 0, 1): 1.5, (1, 0, 2): 2.5}
TWO = {(2, 0, 0): 2.0, (2, 1, 0): 3.0, (2, 2, 0): 4.0, (2, 0, 1): 3.0, (2, 0, 2): 4.0}


def test_the_median_without_the_first_sample_counts() -> None:
    samples = samples_of(ONE)
    for seconds in (2.5, 2.1, 9.0):
        samples.add(samples.plan.kind(1, 2, 0), seconds)
    assert samples.table().verify_s == ((1.0, 2.0, 2.5),)


def test_drafting_is_what_a_step_takes_longer_than_decoding_alone() -> None:
    assert samples_of(ONE).table().draft_s[0] == pytest.approx((0.0, 0.5, 1.5))


def test_a_cell_takes_no_longer_than_a_larger_one() -> None:
    """One request that verifies 2 takes at most the 4.0 of two requests; two that verify none, at
    most the 3.0 of two that verify 1."""
    table = samples_of(ONE | TWO | {(1, 2, 0): 7.0, (2, 0, 0): 3.5}).table()
    assert table.verify_s == ((1.0, 2.0, 4.0), (3.0, 3.0, 4.0))


def test_sizes_without_samples_are_not_in_the_table() -> None:
    assert samples_of(ONE | TWO).table().sizes == (1, 2)


def test_without_a_long_context_the_slopes_are_zero() -> None:
    table = samples_of(ONE).table()
    assert (table.context_s, table.draft_context_s) == (0.0, 0.0)
