"""The learning rate warms up, stays, and decays to zero."""

from __future__ import annotations

import pytest

from paceline.foundation.distillation.rates import WARM_UP_STEPS, rate_factor


def test_the_rate_warms_up_stays_and_decays() -> None:
    """Of 200 steps, the last 100 decay: step 150 has half of the rate."""
    assert [rate_factor(step, 200, 0.5) for step in (0, 39, 100, 150, 199)] == [
        pytest.approx(1 / 40),
        1.0,
        1.0,
        0.5,
        pytest.approx(0.01),
    ]


def test_the_warm_up_does_not_depend_on_the_length() -> None:
    for step in range(WARM_UP_STEPS):
        assert rate_factor(step, 41, 0.5) == rate_factor(step, 10_000, 0.5)
