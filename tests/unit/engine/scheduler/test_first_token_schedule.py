"""How often is a drafter asked for a first token that nobody verifies?"""

from __future__ import annotations

import pytest

from paceline.engine.scheduler.first_token_schedule import FirstTokenSchedule
from paceline.governor.values import DraftPlan

OFF = DraftPlan(0, "off", asks_first_tokens=True)


def test_a_dearer_output_layer_is_asked_for_less_often() -> None:
    """0.2 % of the time: a layer of 1 % of a step in every fifth, one of 7 % in every 35th."""
    assert FirstTokenSchedule(0.01).interval_steps == 5
    assert FirstTokenSchedule(0.07).interval_steps == 35


def test_there_are_steps_between_two_orders_however_cheap_they_are() -> None:
    assert FirstTokenSchedule(0.0001).interval_steps == 5


def test_it_is_due_in_every_fifth_step_at_length_0() -> None:
    schedule = FirstTokenSchedule(0.01)
    assert [schedule.is_due(OFF) for _ in range(11)] == [False] * 4 + [True] + [False] * 4 + [
        True,
        False,
    ]


def test_nothing_is_asked_for_while_drafting_and_at_once_afterwards() -> None:
    schedule = FirstTokenSchedule(0.01)
    assert not any(schedule.is_due(DraftPlan(3, "drafting")) for _ in range(9))
    assert schedule.is_due(OFF)


def test_nothing_is_asked_for_a_policy_that_does_not_ask() -> None:
    schedule = FirstTokenSchedule(0.01)
    assert not any(schedule.is_due(DraftPlan(0, "held at 0")) for _ in range(9))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="head_fraction"):
        FirstTokenSchedule(fraction)
