"""What drafting adds, from steps with a known cost of each pass."""

from __future__ import annotations

import pytest

from paceline.runtime.engine.calibration.draft_fit import fit_drafts

SIZES, LENGTHS = (1, 4, 16), (0, 1, 4, 8)


def drafts_s(num_requests: int, length: int) -> float:
    """4 ms for the first pass, 2 ms for each further one, 0.1 ms for each token."""
    return 0.004 + 0.002 * (length - 1) + 0.0001 * num_requests * length if length else 0.0


def steps_s(disturbed_s: float = 0.0) -> list[list[float]]:
    """20 ms and 5 ms for each request; `disturbed_s` more for 16 requests that draft 1 token."""
    rows = [[0.02 + 0.005 * n + drafts_s(n, k) for k in LENGTHS] for n in SIZES]
    rows[2][1] += disturbed_s
    return rows


def test_a_known_cost_is_found() -> None:
    for size, row in zip(SIZES, fit_drafts(SIZES, LENGTHS, steps_s()), strict=True):
        assert row == pytest.approx([drafts_s(size, length) for length in LENGTHS])


def test_a_disturbed_step_changes_little() -> None:
    """It took 20 ms longer, four times as long as the drafts in it."""
    found = fit_drafts(SIZES, LENGTHS, steps_s(disturbed_s=0.02))
    assert found[2][1] == pytest.approx(drafts_s(16, 1), abs=0.004)
    assert found[0][1] == pytest.approx(drafts_s(1, 1), abs=0.001)


def test_drafts_never_take_less_than_no_time() -> None:
    assert fit_drafts((1, 2), (0, 1), [[0.02, 0.019], [0.03, 0.028]]) == ((0.0, 0.0), (0.0, 0.0))


def test_without_lengths_there_are_no_drafts() -> None:
    assert fit_drafts((1, 2), (0,), [[0.02], [0.03]]) == ((0.0,), (0.0,))
