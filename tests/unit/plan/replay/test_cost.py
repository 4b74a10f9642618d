"""The time of a step is fitted to cells whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from paceline.plan.replay.cost import cost_of, drift, fit_cost, gather_steps
from paceline.policy_simulator.machines.cost import LinearCost, StepShape
from paceline.policy_simulator.machines.graphs import NO_GRAPHS
from paceline.recording.records import StepBlock, StepCell
from unit.policy_simulator.setups import linear

TRUTH = linear(request_s=0.003, judge_s=0.001, context_ktoken_s=0.0005, draft_request_s=0.0002)


def shape(requests: int, length: int, prefill: float = 0.0) -> StepShape:
    return StepShape(requests, requests * length, prefill, requests * 300.0, length)


def block(
    cells: Iterable[tuple[int, int, float]], cost: LinearCost = TRUTH, slowness: float = 1.0
) -> StepBlock:
    """Cells of (requests, draft length, prompt tokens), 20 steps each."""
    rows = tuple(
        StepCell(
            requests, length, True, 20, requests * length, prefill, requests * 300.0,
            slowness * cost.step_s(shape(requests, length, prefill)),
        )
        for requests, length, prefill in cells
    )  # fmt: skip
    return StepBlock(from_s=0.0, to_s=5.0, output_tokens=1, cells=rows)


def every_pass(length: int) -> int:
    return length


VARIED = [(n, k, p) for n in (1, 2, 5, 8) for k in (0, 1, 3) for p in (0.0, 120.0)]


@pytest.mark.parametrize(("requests", "length"), [(1, 0), (8, 2), (16, 1), (32, 5)])
def test_other_shapes_are_predicted(requests: int, length: int) -> None:
    """Also more requests and longer drafts than were run."""
    data = gather_steps([([block(VARIED)], every_pass)], NO_GRAPHS)
    predicted = cost_of(fit_cost(data), data).step_s(shape(requests, length))
    assert predicted == pytest.approx(TRUTH.step_s(shape(requests, length)), rel=0.03)


def spread(data_cells: list[tuple[int, int, float]], at: StepShape) -> float:
    """Relative standard deviation of the prediction over the replicates."""
    data = gather_steps([([block(data_cells)] * 8, every_pass)], NO_GRAPHS)
    random = np.random.default_rng(3)
    predicted = [cost_of(fit_cost(data, random), data).step_s(at) for _ in range(40)]
    return float(np.std(predicted) / np.mean(predicted))


def test_what_was_not_run_is_uncertain() -> None:
    """One draft length and one number of requests, against a varied recording."""
    constant = [(8, 3, 0.0)]
    assert spread(constant, shape(8, 3)) < 0.02
    assert spread(constant, shape(8, 8)) > 3 * spread(VARIED, shape(8, 8))
    assert spread(constant, shape(32, 3)) > 3 * spread(VARIED, shape(32, 3))


def test_no_work_takes_negative_time() -> None:
    """Times that fall with the work, as noise may have it."""
    falling = StepBlock(
        from_s=0.0,
        to_s=5.0,
        output_tokens=1,
        cells=tuple(
            StepCell(n, k, True, 20, n * k, 0.0, 100.0, 0.05 / (n + k)) for n, k in [(1, 0), (9, 4)]
        ),
    )
    data = gather_steps([([falling], every_pass)], NO_GRAPHS)
    assert (fit_cost(data) >= 0.0).all()


def test_two_drafters_share_the_target() -> None:
    """The other drafter's pass takes 9 ms rather than 3, and was run at other lengths only."""
    other = linear(
        request_s=0.003,
        judge_s=0.001,
        context_ktoken_s=0.0005,
        draft_request_s=0.0002,
        draft_pass_s=0.009,
    )
    parts: list[tuple[list[StepBlock], Callable[[int], int]]] = [
        ([block(VARIED)], every_pass),
        ([block([(n, k, 0.0) for n in (2, 6) for k in (1, 2)], other)], every_pass),
    ]
    data = gather_steps(parts, NO_GRAPHS)
    coefficients = fit_cost(data)
    for drafter, truth in ((0, TRUTH), (1, other)):
        predicted = cost_of(coefficients, data, drafter).step_s(shape(8, 4))
        assert predicted == pytest.approx(truth.step_s(shape(8, 4)), rel=0.04)


def test_steps_that_are_not_clean_are_left_out() -> None:
    cells = tuple(StepCell(4, 2, clean, 5, 8.0, 0.0, 900.0, 0.02) for clean in (True, False))
    blocks = [StepBlock(from_s=0.0, to_s=1.0, output_tokens=1, cells=cells)]
    assert gather_steps([(blocks, every_pass)], NO_GRAPHS).counts.tolist() == [5.0]


def test_drift_is_the_spread_of_the_blocks_and_at_least_one_percent() -> None:
    steady = gather_steps([([block(VARIED)] * 10, every_pass)], NO_GRAPHS)
    assert drift(steady, fit_cost(steady)) == 0.01
    moving = [block(VARIED, slowness=1.1 if index % 2 else 0.9) for index in range(10)]
    data = gather_steps([(moving, every_pass)], NO_GRAPHS)
    assert drift(data, fit_cost(data)) == pytest.approx(0.105, abs=0.01)


def test_the_pace_multiplies_every_step() -> None:
    data = gather_steps([([block(VARIED)], every_pass)], NO_GRAPHS)
    coefficients = fit_cost(data)
    at = shape(8, 2)
    slow, usual = (cost_of(coefficients, data, pace=pace).step_s(at) for pace in (1.5, 1.0))
    assert slow == pytest.approx(1.5 * usual)
