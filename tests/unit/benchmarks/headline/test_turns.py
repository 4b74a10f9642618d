"""The order of the arms within a repeat."""

from __future__ import annotations

from benchmarks.headline.arms import default_arms, parse_arms
from benchmarks.headline.cells import DEFAULT_CELLS, parse_cells
from benchmarks.headline.turns import plan_slices

ARMS = parse_arms(default_arms("ngram"))
CELLS = parse_cells(DEFAULT_CELLS)


def test_every_cell_is_run_in_adjacent_parts_by_all_arms() -> None:
    slices = plan_slices(ARMS, CELLS, 1, 2, seed=0)
    assert [part.number for part in slices] == [2, 3] * len(CELLS)
    names = [part.cell.name for part in slices]
    assert names[::2] == names[1::2]
    assert sorted(names[::2]) == sorted(cell.name for cell in CELLS)
    for part in slices:
        left_out = {arm.name for arm in ARMS} - {arm.name for arm in part.order}
        assert left_out == ({"naive"} if part.cell.users == 64 else set())


def test_the_second_part_runs_the_arms_in_reverse() -> None:
    slices = plan_slices(ARMS, CELLS, 0, 2, seed=0)
    for first, second in zip(slices[::2], slices[1::2], strict=True):
        assert second.order == tuple(reversed(first.order))
    assert len({part.order for part in slices[::2]}) > 1


def test_naive_serving_never_separates_the_others() -> None:
    for repeat in range(5):
        for part in plan_slices(ARMS, parse_cells(["chat-1", "edit-16"]), repeat, 1, seed=0):
            assert "naive" in (part.order[0].name, part.order[-1].name)


def test_a_repeat_is_planned_alike_every_time_and_unlike_the_next() -> None:
    assert plan_slices(ARMS, CELLS, 0, 2, seed=0) == plan_slices(ARMS, CELLS, 0, 2, seed=0)
    first, second = (plan_slices(ARMS, CELLS, repeat, 1, seed=0) for repeat in (0, 1))
    assert [p.cell.name for p in first] != [p.cell.name for p in second]
