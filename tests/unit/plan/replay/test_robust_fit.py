"""Steps that other work made several times as long do not decide what a step takes."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.foundation.recording.records import StepBlock, StepCell
from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.graphs import NO_GRAPHS
from paceline.workbench.plan.replay.cost import cost_of
from paceline.workbench.plan.replay.cost_fit import CostFit, fit_cost
from paceline.workbench.plan.replay.step_data import gather_steps
from unit.plan.replay.test_cost_fit import TRUTH, every_pass, shape

LENGTHS = {1: 8, 2: 8, 3: 6, 4: 5, 6: 5, 8: 3}
"""As a governor drafts: shorter with more requests, so that only the fit can tell them apart."""


def recorded_block(random: np.random.Generator, disturbed: float) -> StepBlock:
    """Single steps with 5 % noise; a share of them takes 1.5 to 4 times as long."""
    rows = []
    for requests, usual in LENGTHS.items():
        for length in (usual, usual, usual, max(usual - 2, 0)):
            for prefill in (0.0, 0.0, 0.0, 90.0):
                factor = float(np.exp(0.05 * random.standard_normal()))
                if random.random() < disturbed:
                    factor *= float(random.uniform(1.5, 4.0))
                seconds = factor * TRUTH.step_s(shape(requests, length, prefill))
                rows.append(
                    StepCell(
                        requests, length, True, 1, requests * length, prefill, requests * 300.0,
                        seconds,
                    )
                )  # fmt: skip
    return StepBlock(from_s=0.0, to_s=5.0, output_tokens=1, cells=tuple(rows))


def fit_disturbed(disturbed: float) -> CostFit:
    random = np.random.default_rng(5)
    blocks = [recorded_block(random, disturbed) for _ in range(18)]
    return fit_cost(gather_steps([(blocks, every_pass)], NO_GRAPHS))


@pytest.mark.parametrize("at", [shape(1, 0), shape(4, 0), shape(12, 0), shape(12, 4)])
def test_a_disturbed_tenth_leaves_the_shape_of_the_cost(at: StepShape) -> None:
    """Lengths that were not run, too. With normal noise they were 11 to 111 % off."""
    fitted = fit_disturbed(0.1)
    undisturbed = cost_of(fitted.coefficients / fitted.level, NO_GRAPHS)
    assert undisturbed.step_s(at) == pytest.approx(TRUTH.step_s(at), rel=0.1)


def test_disturbed_steps_take_time() -> None:
    """A tenth of the steps takes 2.75 times as long in the mean."""
    assert fit_disturbed(0.1).level == pytest.approx(1.0 + 0.1 * 1.75, abs=0.05)


def test_without_disturbance_the_fit_has_the_level_of_the_steps() -> None:
    assert fit_disturbed(0.0).level == pytest.approx(1.0, abs=0.01)
