"""Counts of verdicts by position, and cells of steps, against sums that are easily checked."""

from __future__ import annotations

import statistics

import pytest

from paceline.foundation.recording.step_cells import StepCells
from paceline.foundation.recording.verdict_counts import VerdictCounts


def test_a_position_after_the_first_rejection_is_not_tried() -> None:
    """Drafts (drafted, accepted): 4 of 4, 4 of 1, 2 of 0, and an empty one."""
    counts = VerdictCounts()
    for drafted, accepted in ((4, 4), (4, 1), (2, 0), (0, 0)):
        counts.add(drafted, accepted)
    assert counts.asked == 4
    assert counts.by_position() == ((3, 2, 1, 1), (2, 1, 1, 1))


def test_no_verdicts_have_no_positions() -> None:
    assert VerdictCounts().by_position() == ((), ())


def step(cells: StepCells, seconds: float, **changes: int) -> None:
    shape = {
        "num_requests": 4,
        "draft_length": 2,
        "verified_tokens": 8,
        "prefill_tokens": 0,
        "context_tokens": 900,
    }
    cells.add(is_clean=True, seconds=seconds, **(shape | changes))


def test_a_cell_has_the_mean_and_the_spread_of_its_steps() -> None:
    """Context of 900 and 1000 tokens are within a factor of two."""
    cells = StepCells()
    durations = [0.010, 0.014, 0.012]
    for seconds, context in zip(durations, (900, 1000, 950), strict=True):
        step(cells, seconds, context_tokens=context)
    (cell,) = cells.take()
    assert (cell.num_requests, cell.draft_length, cell.count) == (4, 2, 3)
    assert (cell.verified_tokens, cell.context_tokens) == (8, 950)
    assert cell.seconds == pytest.approx(0.012)
    assert cell.squares == pytest.approx(2 * statistics.variance(durations))


@pytest.mark.parametrize(
    "change",
    [
        {"num_requests": 5},
        {"draft_length": 3},
        {"verified_tokens": 0},
        {"prefill_tokens": 1},
        {"context_tokens": 2000},
    ],
)
def test_steps_of_another_shape_are_in_another_cell(change: dict[str, int]) -> None:
    cells = StepCells()
    step(cells, 0.01)
    step(cells, 0.01, **change)
    assert len(cells.take()) == 2


def test_a_block_begins_without_cells() -> None:
    cells = StepCells()
    step(cells, 0.01)
    assert (cells.num_steps, len(cells.take())) == (1, 1)
    assert (cells.num_steps, cells.take()) == (0, ())
