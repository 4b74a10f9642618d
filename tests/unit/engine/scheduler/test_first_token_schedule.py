"""The steps in which the first-token probe is ordered."""

from __future__ import annotations

import pytest

from paceline.engine.scheduler.first_token_schedule import FirstTokenSchedule
from paceline.governor.values import DraftPlan

OFF = DraftPlan(0, "off", requests_first_tokens=True)


def test_a_more_expensive_output_layer_is_probed_less_often() -> None:
    """At 0.2 % of the time: 1 % of a step allows every 5th step, 7 % every 35th."""
    assert FirstTokenSchedule(0.01).interval_steps == 5
    assert FirstTokenSchedule(0.07).interval_steps == 35
    assert FirstTokenSchedule(0.9).interval_steps == 450


def test_cheap_probes_keep_a_minimum_interval() -> None:
    assert FirstTokenSchedule(0.0001).interval_steps == 5


def test_the_probe_is_due_in_every_fifth_step_at_length_0() -> None:
    schedule = FirstTokenSchedule(0.01)
    assert [schedule.is_due(OFF) for _ in range(11)] == [False] * 4 + [True] + [False] * 4 + [
        True,
        False,
    ]


def test_the_probe_is_not_due_while_drafting_and_is_due_right_after() -> None:
    schedule = FirstTokenSchedule(0.01)
    assert not any(schedule.is_due(DraftPlan(3, "drafting")) for _ in range(9))
    assert schedule.is_due(OFF)


def test_the_probe_is_not_due_for_a_plan_that_does_not_request_it() -> None:
    schedule = FirstTokenSchedule(0.01)
    assert not any(schedule.is_due(DraftPlan(0, "held at 0")) for _ in range(9))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, float("nan")])
def test_an_invalid_share_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="head_fraction"):
        FirstTokenSchedule(fraction)
