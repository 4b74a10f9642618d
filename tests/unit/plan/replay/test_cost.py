"""The time of a step by fitted coefficients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.graphs import NO_GRAPHS, GraphSizes
from paceline.workbench.plan.replay.cost import DRAFT_PRIOR, SHARED_PRIOR, cost_of

NAMES = [*SHARED_PRIOR, *DRAFT_PRIOR]
AT = StepShape(8, 16.0, 0.0, 2000.0, 2)
"""8 requests, 16 draft tokens to verify, 2000 tokens of context, 2 draft passes."""


def coefficients(**seconds: float) -> npt.NDArray[np.float64]:
    return np.array([seconds.get(name, 0.0) for name in NAMES])


def test_every_kind_of_work_has_its_price() -> None:
    """Base, request, judge, verify, context, token, draft and pass, in this order."""
    priced = coefficients(
        base=1.0, request=0.1, judge=0.5, verify=0.01, context=0.2, token=0.001, draft=0.003,
        **{"pass": 0.05},
    )  # fmt: skip
    expected = 1.0 + 0.8 + 0.5 + 0.16 + 0.4 + 0.024 + 16 * 0.003 + 0.1
    assert cost_of(priced, NO_GRAPHS).step_s(AT) == pytest.approx(expected)


def test_the_pace_multiplies_every_step() -> None:
    priced = coefficients(base=1.0, request=0.1)
    slow, usual = (cost_of(priced, NO_GRAPHS, pace=pace).step_s(AT) for pace in (1.5, 1.0))
    assert slow == pytest.approx(1.5 * usual)


def test_each_drafter_has_coefficients_of_its_own() -> None:
    priced = np.append(coefficients(base=1.0, **{"pass": 0.05}), [0.5, 0.0])
    first, second = (cost_of(priced, NO_GRAPHS, drafter).step_s(AT) for drafter in (0, 1))
    assert (first, second) == pytest.approx((1.1, 2.0))


def test_a_step_is_padded_to_its_graph() -> None:
    """24 tokens run in the graph of 32."""
    priced = coefficients(token=0.001)
    assert cost_of(priced, GraphSizes((16, 32))).step_s(AT) == pytest.approx(0.032)
