"""Which kinds of steps are measured in an engine with given limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.engine.calibration.plan import LongContext, StepKind, fit_plan, plan_for
from unit.engine.calibration.known_engine import LIMITS


def test_sizes_and_lengths_double_up_to_the_engines_limits() -> None:
    """The limits themselves are measured too."""
    plan = plan_for(replace(LIMITS, max_requests=24, max_draft_length=6))
    assert plan is not None
    assert plan.sizes == (1, 2, 4, 8, 16, 24)
    assert plan.lengths == (0, 1, 2, 4, 6)


def test_only_allowed_lengths_are_measured() -> None:
    plan = plan_for(replace(LIMITS, allowed_lengths=(0, 3, 8)))
    assert plan is not None
    assert plan.lengths == (0, 3, 8)


def test_a_size_needs_each_width_and_each_length_once() -> None:
    plan = plan_for(replace(LIMITS, max_draft_length=2))
    assert plan is not None
    assert plan.kinds_of(4) == tuple(
        StepKind(4, width, length, 256)
        for width, length in [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)]
    )


def test_a_drafter_with_a_fixed_length_drafts_the_maximum_in_every_step() -> None:
    """So only the widths differ."""
    plan = plan_for(replace(LIMITS, max_draft_length=2, follows_length=False))
    assert plan is not None
    assert plan.kinds_of(1) == tuple(StepKind(1, width, 2, 256) for width in (0, 1, 2))


@pytest.mark.parametrize(
    ("change", "largest"),
    [
        # 256 + 3 + 2 * 8 tokens need 3 blocks of 128.
        ({"num_blocks": 12}, 4),
        ({"num_blocks": 11}, 2),
        # 1 + 8 tokens of the target's step, and one more of a draft model's.
        ({"max_step_tokens": 80}, 8),
        ({"max_step_tokens": 79}, 4),
    ],
)
def test_sizes_that_do_not_fit_are_left_out(change: dict[str, int], largest: int) -> None:
    plan = plan_for(replace(LIMITS, **change))  # type: ignore[arg-type]
    assert plan is not None
    assert plan.sizes[-1] == largest


def test_a_short_context_limit_shortens_the_trial_requests() -> None:
    """119 of 138 tokens are left beside the 19 that steps write; no longer context is measured."""
    plan = plan_for(replace(LIMITS, max_request_tokens=138))
    assert plan is not None
    assert plan.context_tokens == 119
    assert plan.long is None


@pytest.mark.parametrize("change", [{"max_request_tokens": 19}, {"num_blocks": 2}])
def test_without_room_for_one_request_there_is_no_plan(change: dict[str, int]) -> None:
    assert plan_for(replace(LIMITS, **change)) is None  # type: ignore[arg-type]


def test_the_cost_of_context_is_measured_where_it_fits() -> None:
    """2048 + 19 tokens need 17 blocks; 34 hold two requests."""
    plan = plan_for(LIMITS)
    assert plan is not None
    assert plan.long == LongContext(4, 2048)
    plan = plan_for(replace(LIMITS, num_blocks=34))
    assert plan is not None
    assert plan.long == LongContext(2, 2048)


def test_slow_steps_get_a_coarser_plan() -> None:
    """5 sizes with 9 kinds, 4 rounds, 3 times the step of one request: 540 steps of 20 ms take
    10.8 s."""
    plan = plan_for(LIMITS)
    assert plan is not None
    assert fit_plan(plan, one_request_s=0.018, budget_s=10.0) == plan
    coarse = fit_plan(plan, one_request_s=0.020, budget_s=10.0)
    assert coarse.sizes == (1, 4, 16)
    assert coarse.lengths == (0, 1, 4, 8)
