"""The surface: what blocks say about the cells that were not measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.workbench.tune.search.surface import Block, Surface, promising

LINE = [[length, limit] for length in ("a", "b") for limit in (1, 2, 4, 8)]


def _surface(prior: list[float] | None = None) -> Surface:
    return Surface(LINE, prior or [0.0] * len(LINE))


def test_a_measured_cell_is_known_to_within_the_noise_and_the_mean_of_its_blocks() -> None:
    blocks = [Block(0, 0, 1.0), Block(0, 1, 1.04), Block(0, 2, 1.02), Block(4, 0, 3.0)]
    fit = _surface().fit(blocks)
    assert fit.mean[0] == pytest.approx(1.02, abs=0.03)
    assert fit.mean[4] == pytest.approx(3.0, abs=0.1)
    assert fit.sd[0] < fit.sd[4] < fit.sd[7]


def test_neighbours_of_a_good_cell_are_expected_to_be_better_than_distant_cells() -> None:
    blocks = [Block(0, 0, 0.0), Block(3, 0, 1.0), Block(4, 0, 0.0)]
    fit = _surface().fit(blocks)
    assert fit.mean[3] > fit.mean[2] > fit.mean[1] > fit.mean[0]
    # The same limit on the other server gains too.
    assert fit.mean[7] > fit.mean[4]


def test_predictions_hold_up_to_a_common_factor() -> None:
    prior = [math.log(value) for value in (1, 2, 3, 4, 1, 2, 3, 4)]
    fit = _surface(prior).fit([Block(0, 0, math.log(10)), Block(3, 0, math.log(40))])
    assert fit.mean[6] == pytest.approx(math.log(30), abs=0.1)


def test_an_effect_of_a_request_sequence_is_not_taken_for_one_of_a_cell() -> None:
    """Every cell loses 0.2 on sequence 1, also the one that has another block on it alone."""
    cells = range(8)
    blocks = [Block(cell, 0, 0.0) for cell in cells] + [Block(cell, 1, -0.2) for cell in cells[:7]]
    fit = _surface().fit(blocks)
    assert abs(fit.mean[7] - fit.mean[0]) < 0.1


def test_repeats_that_differ_raise_the_noise() -> None:
    def noise(spread: float) -> float:
        blocks = [
            Block(cell, number, spread * (-1) ** (cell + number))
            for cell in range(8)
            for number in range(3)
        ]
        return _surface().fit(blocks).noise_sd

    assert noise(0.01) < noise(0.1) < noise(0.4)


def test_without_blocks_the_prediction_orders_the_cells() -> None:
    prior = [0.0, 0.1, 0.2, 0.3, 0.0, 0.1, 0.2, 0.9]
    fit = _surface(prior).fit([])
    assert promising(fit, range(8), 1, caution=2.0) == [7]


def test_cells_to_measure_together_spread_over_the_knobs() -> None:
    fit = _surface().fit([])
    chosen = promising(fit, range(8), 4, caution=2.0)
    assert len(set(chosen)) == 4
    assert {LINE[index][0] for index in chosen[:2]} == {"a", "b"}


def test_no_more_cells_are_chosen_than_there_are() -> None:
    assert promising(_surface().fit([]), [2, 5], 9, caution=2.0) in ([2, 5], [5, 2])


def test_the_covariance_stays_valid_with_values_of_mixed_kinds() -> None:
    knobs = [[draft, length] for draft in ("x", True, "y") for length in (None, 0, 1, 2, 3, 8)]
    fit = Surface(knobs, [0.0] * len(knobs)).fit(
        [Block(index, 0, 0.1 * index) for index in range(len(knobs))]
    )
    assert np.linalg.eigvalsh(fit.covariance).min() > -1e-9
