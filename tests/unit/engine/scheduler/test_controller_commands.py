"""What an operator's command changes, and what a failure leaves in force."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.governor.values import DraftPlan
from unit.engine.scheduler.controllers import (
    LOAD,
    FailingPolicy,
    Planned,
    failing,
    make_controller,
    make_sample,
)


def test_a_new_controller_has_the_static_setting_in_force() -> None:
    state = make_controller(draft_length=5).state()
    assert (state["draft_length"], state["ceiling"], state["max_draft_length"]) == (5, 8, 8)
    assert state["reason"] == "static setting until the first step"
    assert (state["safe_plan"], state["steps_total"], state["safe_plan_steps_total"]) == (
        False,
        0,
        0,
    )
    assert (state["policy"], state["method"]) == ("fixed", "draft_model")
    assert make_controller().draft_length() == 8


def test_steps_are_counted() -> None:
    controller = make_controller()
    for _ in range(3):
        controller.plan(LOAD)
    assert controller.state()["steps_total"] == 3


@pytest.mark.parametrize("ceiling", [0, 8])
def test_a_ceiling_from_off_to_the_maximum_is_taken(ceiling: int) -> None:
    controller = make_controller()
    controller.set({"ceiling": ceiling})
    assert controller.ceiling() == controller.draft_length() == ceiling


def test_a_length_equal_to_the_ceiling_is_taken() -> None:
    controller = make_controller()
    controller.set({"ceiling": 4, "draft_length": 4})
    assert controller.plan(LOAD).draft_length == 4


def test_a_plan_under_the_ceiling_keeps_its_reason() -> None:
    """At the ceiling too; above it, the reason says what limits it."""
    for planned, reason in ((3, "planned"), (4, "planned"), (5, "planned; limited by the ceiling")):
        controller = DraftLengthController(
            PluginSettings(policy="fixed"),
            EngineAbilities(8, "ngram"),
            make_policy=lambda name, planned=planned, **_: Planned(DraftPlan(planned, "planned")),
        )
        controller.set({"ceiling": 4})
        assert controller.plan(LOAD).reason == reason


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ({"policy_parameters": {"draft_length": 3}}, "policy_parameters is given without policy"),
        (
            {"policy_parameters": {}, "policy": "fixed", "draft_length": 3},
            "policy_parameters is given without policy or together with draft_length",
        ),
        ({"policy": "fixed", "policy_parameters": 3}, "policy_parameters is 3; it must be an obj"),
        ({"policy": "fixed", "policy_parameters": {"speed": 1}}, "has no parameter 'speed'"),
        ({"speed": 1, "length": 3}, "set has the unknown key 'length'; allowed keys: policy"),
        ({"draft_length": 3, "policy": "off"}, "only fixed takes it"),
        ({"ceiling": 9}, "from 0 .off. to 8, the engine's num_speculative_tokens"),
        ({"ceiling": -1}, "ceiling is -1"),
        ({"ceiling": 2.0}, r"ceiling is 2\.0"),
    ],
)
def test_a_wrong_command_says_what_is_allowed(command: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_controller().set(command)


def test_parameters_come_with_their_policy() -> None:
    controller = make_controller(policy="goodput")
    controller.set({"policy": "fixed", "policy_parameters": {"draft_length": 3}})
    assert controller.state()["draft_length"] == 3
    assert controller.plan(LOAD).draft_length == 3


def test_a_length_may_name_its_policy() -> None:
    controller = make_controller(policy="goodput")
    controller.set({"policy": "fixed", "draft_length": 2})
    assert controller.plan(LOAD).draft_length == 2


class Built:
    """Remembers how each policy was built."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, **arguments: Any) -> FailingPolicy:
        self.calls.append((name, arguments))
        return FailingPolicy(1)


@pytest.mark.parametrize(("objective_ms", "max_step_s"), [(None, math.inf), (50.0, 0.05)])
def test_a_policy_is_built_with_the_maximum_the_objective_and_the_costs(
    objective_ms: float | None, max_step_s: float
) -> None:
    built, costs = Built(), CostTable((1,), (0,), ((0.01,),), ((0.0,),))
    DraftLengthController(
        PluginSettings(policy="goodput", time_per_output_token_ms=objective_ms),
        EngineAbilities(8, "ngram"),
        cost_table=costs,
        make_policy=built,
    )
    expected = {"max_draft_length": 8, "max_step_s": max_step_s, "cost_table": costs}
    assert built.calls == [("goodput", expected)]


def test_a_policy_is_built_once_for_the_same_parameters() -> None:
    """Lengths 3, 5 and 5 again, and back to goodput: three policies in all."""
    built = Built()
    controller = DraftLengthController(
        PluginSettings(policy="goodput"), EngineAbilities(8, "ngram"), make_policy=built
    )
    for command in ({"draft_length": 3}, {"draft_length": 5}, {"draft_length": 5}):
        controller.set(command)
    controller.set({"policy": "goodput"})
    assert [(name, given.get("draft_length")) for name, given in built.calls] == [
        ("goodput", None),
        ("fixed", 3),
        ("fixed", 5),
    ]


def test_no_policy_is_built_with_parameters_that_it_does_not_take() -> None:
    built = Built()
    controller = DraftLengthController(
        PluginSettings(policy="goodput"), EngineAbilities(8, "ngram"), make_policy=built
    )
    with pytest.raises(ValueError, match="has no parameter 'speed'"):
        controller.set({"policy": "fixed", "policy_parameters": {"speed": 1}})
    assert [name for name, _ in built.calls] == ["goodput"]


def test_the_time_under_the_safe_plan_is_counted() -> None:
    """One step of 50 ms after a failure; a good plan ends it."""
    policy = FailingPolicy(ZeroDivisionError("planted"))
    controller = DraftLengthController(
        PluginSettings(policy="fixed"),
        EngineAbilities(8, "ngram"),
        make_policy=lambda name, **_: policy,
    )
    controller.plan(LOAD)
    controller.observe(make_sample())
    policy.planned = 2
    controller.plan(LOAD)
    controller.observe(make_sample())
    assert controller.state()["safe_plan_seconds_total"] == pytest.approx(0.05)


def test_after_a_failure_the_next_good_plan_is_in_force() -> None:
    """The safe plan names the error, and its step is counted as such."""
    policy = FailingPolicy(ZeroDivisionError("planted"))
    controller = DraftLengthController(
        PluginSettings(policy="fixed", draft_length=4),
        EngineAbilities(8, "ngram"),
        make_policy=lambda name, **_: policy,
    )
    plan = controller.plan(LOAD)
    assert plan == DraftPlan(4, "static setting, because of ZeroDivisionError in plan")
    assert controller.draft_length() == 4
    policy.planned = 2
    assert controller.plan(LOAD).draft_length == 2
    state = controller.state()
    assert (state["safe_plan"], state["safe_plan_steps_total"]) == (False, 1)
    assert (state["draft_length"], state["reason"]) == (2, "planted")


@pytest.mark.parametrize("length", [0, 8])
def test_lengths_from_off_to_the_maximum_are_valid_plans(length: int) -> None:
    controller = failing(length)
    assert controller.plan(LOAD).draft_length == length
    assert not controller.state()["safe_plan"]


def test_errors_outside_the_policy_are_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One of them also falls back to the static setting."""
    controller = make_controller(draft_length=6)
    for _ in range(3):
        with controller.noting_errors("observing"):
            raise KeyError("planted")
    assert (controller.state()["policy_errors_total"], controller.state()["safe_plan"]) == (
        3,
        False,
    )
    plan = controller.fall_back("scheduling", KeyError("planted"))
    assert plan == DraftPlan(6, "static setting, because of KeyError in scheduling")
    state = controller.state()
    assert (state["policy_errors_total"], state["safe_plan"]) == (4, True)
    assert [record.getMessage().split(" under")[0] for record in caplog.records] == [
        "Governor: KeyError in observing",
        "Governor: KeyError in scheduling",
    ]


def test_a_sample_reaches_the_counters_although_the_policy_fails() -> None:
    controller = failing(3)
    controller.plan(LOAD)
    controller.observe(make_sample())
    state = controller.state()
    assert state["accepted_fraction"] == pytest.approx(0.5)
    assert state["seconds_total"] == pytest.approx(0.05)
    assert state["policy_errors_total"] == 1


@pytest.mark.parametrize("expected", [None, 3, 80.5])
def test_an_expectation_is_a_number_or_absent(expected: float | None) -> None:
    controller = DraftLengthController(
        PluginSettings(policy="fixed"),
        EngineAbilities(8, "ngram"),
        make_policy=lambda name, **_: Planned(
            DraftPlan(3, "planned", expected_tokens_per_s=expected)
        ),
    )
    assert controller.plan(LOAD).draft_length == 3
    assert controller.state()["expected_goodput_tokens_per_s"] == expected


def test_drafts_are_counted() -> None:
    controller = make_controller()
    controller.count_drafts((3, 2), (2, 0))
    state = controller.state()
    assert (state["drafted_tokens_total"], state["accepted_tokens_total"]) == (5, 2)
