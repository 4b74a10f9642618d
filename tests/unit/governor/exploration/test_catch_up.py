"""The measured cost of catching up, per token of context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.governor.estimates.cost import CostModel
from paceline.governor.exploration.catch_up import CatchUpCost
from paceline.governor.values import StepSample

CLEAN_S = 0.020


def sample(duration_s: float | None = CLEAN_S, **changes: Any) -> StepSample:
    """A clean step of four requests with 1,000 tokens of context."""
    clean = StepSample(
        num_requests=4,
        requested_draft_length=0,
        drafted=(),
        accepted=(),
        verified_draft_tokens=0,
        draft_length=0,
        prefill_tokens=0,
        context_tokens=1000,
        duration_s=duration_s,
        is_clean=True,
    )
    return replace(clean, **changes)


def catching_up(duration_s: float | None, **changes: Any) -> StepSample:
    return sample(duration_s, is_clean=False, catches_up=True, **changes)


@pytest.fixture
def catch_up() -> CatchUpCost:
    """Beside a cost model that knows clean steps of 20 ms."""
    cost = CostModel()
    for _ in range(40):
        cost.observe(sample())
    return CatchUpCost(cost)


def test_before_a_measurement_it_is_free(catch_up: CatchUpCost) -> None:
    assert catch_up.token_s == 0.0


def test_the_time_beyond_a_clean_step_is_the_cost(catch_up: CatchUpCost) -> None:
    """30 ms more for 1,000 tokens."""
    assert catch_up.observe(catching_up(0.050)) == pytest.approx(0.030, rel=0.01)
    assert catch_up.token_s == pytest.approx(0.030 / 1000, rel=0.01)


def test_it_rises_at_once_and_falls_by_a_fifth(catch_up: CatchUpCost) -> None:
    catch_up.observe(catching_up(0.050))
    catch_up.observe(catching_up(0.080))
    assert catch_up.token_s == pytest.approx(0.060 / 1000, rel=0.01)
    catch_up.observe(catching_up(0.030))
    assert catch_up.token_s == pytest.approx((0.8 * 0.060 + 0.2 * 0.010) / 1000, rel=0.01)


def test_a_step_faster_than_a_clean_one_costs_nothing(catch_up: CatchUpCost) -> None:
    assert catch_up.observe(catching_up(0.010)) == 0.0
    assert catch_up.token_s == 0.0


@pytest.mark.parametrize(
    "other",
    [
        sample(0.050),
        catching_up(0.050, prefill_tokens=1),
        catching_up(0.050, context_tokens=0),
        catching_up(None),
    ],
    ids=["no catching up", "prefill", "no context", "no time"],
)
def test_other_steps_teach_nothing(catch_up: CatchUpCost, other: StepSample) -> None:
    assert catch_up.observe(other) is None
    assert catch_up.token_s == 0.0


def test_one_token_of_context_is_enough(catch_up: CatchUpCost) -> None:
    assert catch_up.observe(catching_up(0.050, context_tokens=1)) == pytest.approx(0.03, rel=0.05)
