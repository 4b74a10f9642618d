"""Which steps check a stored table, and when it still holds."""

from __future__ import annotations

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration.plan import StepKind
from paceline.runtime.engine.calibration.recheck import judge, kinds_to_check

TABLE = CostTable(
    sizes=(1, 4, 16),
    lengths=(0, 4),
    verify_s=((0.01, 0.02), (0.02, 0.06), (0.06, 0.20)),
    draft_s=((0.0, 0.02), (0.0, 0.03), (0.0, 0.10)),
    context_tokens=256,
)
CHECKS = {
    StepKind(1, 0, 0, 256): 0.01,
    StepKind(1, 0, 4, 256): 0.03,
    StepKind(4, 4, 0, 256): 0.06,
    StepKind(4, 0, 4, 256): 0.05,
}


def test_long_steps_are_not_among_the_checks() -> None:
    """16 requests that verify 4 tokens take 200 ms."""
    kinds = kinds_to_check(TABLE, resting_length=0)
    assert len(kinds) == 5
    assert {kind.num_requests for kind in kinds} == {1, 4}


def test_a_table_of_long_steps_is_checked_at_its_smallest_size() -> None:
    slow = CostTable((1, 2), (0, 1), ((1.0, 2.0), (2.0, 3.0)), ((0.0, 1.0), (0.0, 1.0)))
    assert {kind.num_requests for kind in kinds_to_check(slow, resting_length=0)} == {1}


def test_a_machine_that_is_slower_as_a_whole_keeps_the_table() -> None:
    verdict = judge(TABLE, {kind: 1.04 * seconds for kind, seconds in CHECKS.items()})
    assert verdict.holds
    assert verdict.slowdown == pytest.approx(1.04)


@pytest.mark.parametrize(("times", "holds"), [(1.14, True), (1.16, False), (0.84, False)])
def test_one_part_that_has_become_slower_or_faster_does_not(times: float, holds: bool) -> None:
    """More than 15 % from the median of the checks."""
    changed = CHECKS | {StepKind(4, 4, 0, 256): 0.06 * times}
    assert judge(TABLE, changed).holds is holds


def test_the_speed_is_the_median_so_that_one_check_does_not_move_it() -> None:
    changed = {kind: 2.0 * seconds for kind, seconds in CHECKS.items()}
    changed[StepKind(1, 0, 0, 256)] = 0.5
    assert judge(TABLE, changed).slowdown == pytest.approx(2.0)
