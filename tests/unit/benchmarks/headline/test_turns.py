"""The order of the arms within a repeat."""

from __future__ import annotations

from benchmarks.headline.arms import default_arms, parse_arms
from benchmarks.headline.cells import DEFAULT_CELLS, parse_cells
from benchmarks.headline.turns import plan_slices

ARMS = parse_arms(default_arms("servers"))
CELLS = parse_cells(DEFAULT_CELLS)


def test_every_cell_is_run_by_its_arms_in_an_order_of_its_own() -> None:
    slices = plan_slices(ARMS, CELLS, 1, seed=0)
    assert sorted(part.cell.name for part in slices) == sorted(DEFAULT_CELLS)
    for part in slices:
        left_out = {arm.name for arm in ARMS} - {arm.name for arm in part.order}
        is_run = part.cell.name in {"chat-1", "chat-4", "chat-16", "system-cached"}
        assert left_out == (set() if is_run else {"naive"})
    assert len({part.order for part in slices}) > 1


def test_naive_serving_never_separates_the_others() -> None:
    for repeat in range(5):
        for part in plan_slices(ARMS, parse_cells(["chat-1", "chat-16"]), repeat, seed=0):
            assert "naive" in (part.order[0].name, part.order[-1].name)


def test_a_repeat_is_planned_alike_every_time_and_unlike_the_next() -> None:
    assert plan_slices(ARMS, CELLS, 0, seed=0) == plan_slices(ARMS, CELLS, 0, seed=0)
    first, second = (plan_slices(ARMS, CELLS, repeat, seed=0) for repeat in (0, 1))
    assert [p.cell.name for p in first] != [p.cell.name for p in second]
