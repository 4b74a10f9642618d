"""The time of a step is fitted to cells whose truth is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pytest

from paceline.foundation.recording.records import StepBlock, StepCell
from paceline.testing.policy_simulator.machines.cost import LinearCost, StepShape
from paceline.testing.policy_simulator.machines.graphs import NO_GRAPHS
from paceline.workbench.plan.replay.cost import cost_of
from paceline.workbench.plan.replay.cost_fit import CostFit, fit_cost
from paceline.workbench.plan.replay.step_data import gather_steps
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


def fit(*recordings: Sequence[StepBlock]) -> CostFit:
    """Of recordings of one machine, each with a drafter of its own."""
    return fit_cost(gather_steps([(blocks, every_pass) for blocks in recordings], NO_GRAPHS))


def step_s(fitted: CostFit, at: StepShape, drafter: int = 0) -> float:
    return cost_of(fitted.coefficients, NO_GRAPHS, drafter).step_s(at)


VARIED = [(n, k, p) for n in (1, 2, 5, 8) for k in (0, 1, 3) for p in (0.0, 120.0)]


@pytest.mark.parametrize(("requests", "length"), [(1, 0), (8, 2), (16, 1), (32, 5)])
def test_other_shapes_are_predicted(requests: int, length: int) -> None:
    """Also more requests and longer drafts than were run."""
    at = shape(requests, length)
    assert step_s(fit([block(VARIED)]), at) == pytest.approx(TRUTH.step_s(at), rel=0.03)


def spread(data_cells: list[tuple[int, int, float]], at: StepShape) -> float:
    """Relative standard deviation of the prediction over the replicates."""
    fitted, random = fit([block(data_cells)] * 8), np.random.default_rng(3)
    predicted = [cost_of(fitted.draw(random), NO_GRAPHS).step_s(at) for _ in range(40)]
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
    assert (fit([falling]).coefficients >= 0.0).all()


def test_more_load_while_the_machine_is_slow_is_not_taken_for_the_price_of_load() -> None:
    """Minutes with 1 to 4 requests, and 4 % slower ones with 5 to 8."""
    few, many = ([cell for cell in VARIED if cell[0] in ns] for ns in ((1, 2), (5, 8)))
    blocks = [block(few, slowness=0.98)] * 24 + [block(many, slowness=1.02)] * 24
    for at in (shape(4, 1), shape(32, 1), shape(32, 0)):
        assert step_s(fit(blocks), at) == pytest.approx(TRUTH.step_s(at), rel=0.02)


OTHER = linear(
    request_s=0.003,
    judge_s=0.001,
    context_ktoken_s=0.0005,
    draft_request_s=0.0002,
    draft_pass_s=0.009,
)
"""Another drafter, whose pass takes 9 ms rather than 3."""


def test_two_drafters_share_the_target() -> None:
    """The other drafter was run at other lengths only."""
    second = [block([(n, k, 0.0) for n in (2, 6) for k in (1, 2)], OTHER)]
    fitted = fit([block(VARIED)], second)
    for drafter, truth in ((0, TRUTH), (1, OTHER)):
        predicted = step_s(fitted, shape(8, 4), drafter)
        assert predicted == pytest.approx(truth.step_s(shape(8, 4)), rel=0.04)


def test_a_machine_that_is_slow_for_a_recording_is_not_taken_for_a_slow_drafter() -> None:
    """The second recording was made while every step took 3 % longer."""
    fitted = fit([block(VARIED)] * 24, [block(VARIED, OTHER, slowness=1.03)] * 24)
    at = shape(8, 6)
    assert step_s(fitted, at, 1) == pytest.approx(OTHER.step_s(at), rel=0.01)


def test_another_drafter_without_clean_steps_has_the_cost_of_the_prior() -> None:
    fitted = fit([block(VARIED)], [])
    at = shape(8, 2)
    assert step_s(fitted, at) == pytest.approx(TRUTH.step_s(at), rel=0.03)
    assert step_s(fitted, at, 1) > step_s(fitted, shape(8, 0), 1)


def test_steps_that_are_not_clean_are_left_out() -> None:
    cells = tuple(StepCell(4, 2, clean, 5, 8.0, 0.0, 900.0, 0.02) for clean in (True, False))
    blocks = [StepBlock(from_s=0.0, to_s=1.0, output_tokens=1, cells=cells)]
    assert gather_steps([(blocks, every_pass)], NO_GRAPHS).counts.tolist() == [5.0]


def test_a_run_is_half_a_minute_or_an_eighth_of_a_short_recording() -> None:
    """60 blocks of 5 s in runs of 6, 16 in runs of 2; a run belongs to one recording."""
    parts = [([block([(4, 1, 0.0)])] * count, every_pass) for count in (60, 16)]
    data = gather_steps(parts, NO_GRAPHS)
    assert np.bincount(data.run).tolist() == [6] * 10 + [2] * 8
    assert data.num_blocks == 76


def test_drift_is_the_spread_of_the_blocks_and_at_least_one_percent() -> None:
    steady = [block(VARIED, slowness=1.001 if index % 2 else 0.999) for index in range(240)]
    assert fit(steady).pace_deviation == 0.01
    moving = [block(VARIED, slowness=1.1 if index % 2 else 0.9) for index in range(240)]
    assert fit(moving).pace_deviation == pytest.approx(0.105, abs=0.01)


def test_blocks_that_resemble_their_neighbours_count_for_fewer() -> None:
    """Two minutes each at two speeds, and the same blocks in turn: at most one a minute."""
    slow = [block(VARIED, slowness=1.02 if index >= 24 else 0.98) for index in range(48)]
    in_turn = [block(VARIED, slowness=1.02 if index % 2 else 0.98) for index in range(48)]
    assert 1.0 <= fit(slow).num_independent_blocks < 3.0
    assert fit(in_turn).num_independent_blocks == 4.0
    assert fit(slow).phase_deviation > 1.05 * fit(in_turn).phase_deviation


def test_a_short_recording_has_not_seen_how_much_the_speed_changes() -> None:
    """Ten seconds at nearly one speed, against ten minutes."""
    blocks = [block(VARIED, slowness=1.001 if index % 2 else 0.999) for index in range(120)]
    assert fit(blocks[:2]).phase_deviation == pytest.approx(0.035, abs=0.002)
    assert fit(blocks).phase_deviation < 0.012


def stepped(shape_s: float, requests: int) -> float:
    """A step that takes 6 % longer from 4 requests on, which no sum of the features does."""
    return shape_s * (1.06 if requests >= 4 else 1.0)


def test_shapes_that_deviate_from_the_fit_are_a_misfit() -> None:
    """And none is found where only the noise of the steps deviates: 5 % of 20 steps each."""
    random = np.random.default_rng(1)

    def noisy(is_stepped: bool) -> list[StepBlock]:
        blocks = []
        for _ in range(16):
            cells = []
            for cell in block(VARIED).cells:
                truth = stepped(cell.seconds, cell.num_requests) if is_stepped else cell.seconds
                steps = truth * (1.0 + 0.05 * random.standard_normal(cell.count))
                mean = float(steps.mean())
                squares = float(((steps - mean) ** 2).sum())
                cells.append(msgspec.structs.replace(cell, seconds=mean, squares=squares))
            blocks.append(StepBlock(from_s=0.0, to_s=5.0, output_tokens=1, cells=tuple(cells)))
        return blocks

    assert fit(noisy(False)).misfit < 0.004
    assert 0.008 < fit(noisy(True)).misfit < 0.03


def test_speed_that_changes_slowly_leaves_the_mean_uncertain() -> None:
    """Four minutes, of which one in two is 4 % slower. The mean of 8 runs of 30 s whose speed
    deviates by 2 % has a standard error of 2 % / sqrt(8), 0.7 %; of 48 blocks it would be 0.3 %."""
    blocks = [block(VARIED, slowness=1.02 if index // 12 % 2 else 0.98) for index in range(48)]
    fitted, random, at = fit(blocks), np.random.default_rng(3), shape(8, 2)
    predicted = [cost_of(fitted.draw(random), NO_GRAPHS).step_s(at) for _ in range(60)]
    assert np.std(predicted) / np.mean(predicted) == pytest.approx(0.007, rel=0.3)
