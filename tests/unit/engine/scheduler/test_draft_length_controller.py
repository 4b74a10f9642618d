"""The draft length in force under policies, operator commands and failures."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.governor.values import DraftPlan, DraftRule, EngineLoad
from unit.engine.scheduler.controllers import (
    LOAD,
    FailingPolicy,
    Planned,
    failing,
    make_controller,
    make_sample,
)


def test_fixed_without_a_length_is_the_static_setting() -> None:
    """`fixed` alone means num_speculative_tokens."""
    assert make_controller().plan(LOAD).draft_length == 8


@pytest.mark.parametrize("length", [0, 3, 8, 5])
def test_a_fixed_length_holds_from_the_next_plan(length: int) -> None:
    """An operator's length, 0 included, implies the policy fixed."""
    controller = make_controller(policy="goodput")
    controller.set({"draft_length": length})
    assert controller.plan(LOAD).draft_length == length
    assert controller.state()["policy"] == "fixed"


def test_the_ceiling_limits_every_policy() -> None:
    """Fixed at 8 under a ceiling of 2, and again at 8 when the ceiling is lifted."""
    controller = make_controller()
    controller.set({"ceiling": 2})
    assert (controller.plan(LOAD).draft_length, controller.state()["ceiling"]) == (2, 2)
    controller.set({"ceiling": 8})
    assert controller.plan(LOAD).draft_length == 8


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ({}, "at least one of"),
        (
            {"speed": 1},
            "unknown key 'speed'; allowed keys: policy, policy_parameters, draft_length",
        ),
        ({"draft_length": 9}, "draft_length is 9; it must be a whole number from 0 .off. to 8"),
        ({"draft_length": -1}, "draft_length is -1"),
        ({"draft_length": True}, "draft_length is True"),
        ({"draft_length": "3"}, "draft_length is '3'"),
        ({"ceiling": 9}, "ceiling is 9"),
        ({"ceiling": 2, "draft_length": 3}, "from 0 .off. to 2, the ceiling in force"),
        ({"policy": "best"}, "policy is 'best'; it must be one of goodput"),
        ({"policy": "schedule"}, "policy schedule needs the parameter schedule"),
        ({"policy": "goodput", "draft_length": 3}, "only fixed takes it"),
        ({"policy": 7}, "must be the name of a policy"),
    ],
)
def test_a_wrong_command_is_refused_with_a_message_and_changes_nothing(
    command: dict[str, Any], message: str
) -> None:
    """Policy, ceiling and plan are unchanged."""
    controller = make_controller(draft_length=3)
    before = (controller.plan(LOAD), controller.state())
    with pytest.raises(ValueError, match=message):
        controller.set(command)
    after = (controller.plan(LOAD), controller.state())
    assert before[0] == after[0]
    assert {**before[1], "steps_total": 2} == after[1]


def test_a_policy_keeps_what_it_learned_while_another_is_in_force() -> None:
    """After fixed and back to goodput, the same policy object is in force."""
    controller = make_controller(policy="goodput")
    learned = controller._policy
    controller.set({"draft_length": 3})
    controller.set({"policy": "goodput"})
    assert controller._policy is learned


def test_the_state_has_the_parameters_that_an_operator_gave() -> None:
    """A plan below the setting, here by the ceiling, does not change them."""
    controller = make_controller(policy="goodput")
    assert controller.state()["policy_parameters"] == {}
    controller.set({"draft_length": 3})
    controller.set({"ceiling": 1})
    assert controller.plan(LOAD).draft_length == 1
    assert controller.state()["policy_parameters"] == {"draft_length": 3}
    controller.set({"policy": "goodput"})
    assert controller.state()["policy_parameters"] == {}


class ProbingPolicy(FailingPolicy):
    """Every plan is a probe."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(5, "planted", is_exploring=True)


def test_a_probe_that_the_ceiling_limits_is_still_a_probe() -> None:
    """The length is limited to 2."""
    controller = DraftLengthController(
        PluginSettings(policy="fixed"),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: ProbingPolicy(0),
    )
    assert controller.plan(LOAD) == DraftPlan(5, "planted", is_exploring=True)
    controller.set({"ceiling": 2})
    plan = controller.plan(LOAD)
    assert (plan.draft_length, plan.is_exploring) == (2, True)


@pytest.mark.parametrize("planned", [ZeroDivisionError("planted"), 9, -1])
def test_a_failing_policy_gives_the_static_setting(planned: Any) -> None:
    """After an exception or a length out of bounds: the safe plan, counted and visible."""
    controller = failing(planned)
    assert [controller.plan(LOAD).draft_length for _ in range(3)] == [8, 8, 8]
    state = controller.state()
    assert (state["safe_plan"], state["safe_plan_steps_total"]) == (True, 3)
    assert state["policy_errors_total"] == 3


def test_the_safe_plan_is_the_configured_length_under_the_ceiling() -> None:
    """The static setting is 5; under an operator's ceiling of 2 the safe plan is 2."""
    controller = failing(ZeroDivisionError("planted"), draft_length=5)
    assert controller.plan(LOAD).draft_length == 5
    controller.set({"ceiling": 2})
    assert controller.plan(LOAD).draft_length == 2


def test_each_kind_of_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Ten failing plans and ten failing observations: two lines, twenty counts."""
    controller = failing(ZeroDivisionError("planted"))
    for _ in range(10):
        controller.plan(LOAD)
        controller.observe(make_sample())
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert controller.state()["policy_errors_total"] == 20


def test_commands_and_plans_from_two_threads_are_consistent() -> None:
    """While one thread plans, another switches 2000 times: every plan is one of the two."""
    controller = make_controller()
    plans: set[int] = set()
    stop = threading.Event()

    def keep_planning() -> None:
        while not stop.is_set():
            plans.add(controller.plan(LOAD).draft_length)

    thread = threading.Thread(target=keep_planning)
    thread.start()
    for turn in range(2000):
        controller.set({"draft_length": 3} if turn % 2 else {"draft_length": 6, "ceiling": 8})
    stop.set()
    thread.join(timeout=60.0)
    assert plans <= {8, 3, 6}
    assert controller.state()["policy_errors_total"] == 0


@pytest.mark.parametrize(
    ("command", "length"),
    [
        ({"draft_length": 3}, 3),
        ({"policy": "off"}, 0),
        ({"policy": "fixed", "ceiling": 5}, 5),
        ({"ceiling": 2}, 2),
        ({"policy": "goodput"}, 6),
    ],
)
def test_an_idle_engine_shows_the_set_length(command: dict[str, Any], length: int) -> None:
    """Until the next step: the set length, else the previous one, within the ceiling."""
    controller = make_controller(draft_length=6)
    controller.plan(LOAD)
    controller.set(command)
    state = controller.state()
    assert (state["draft_length"], state["reason"]) == (length, "as set; the next step plans")


@pytest.mark.parametrize("planned", [2.5, 3.0, True, "3"])
def test_a_planned_length_that_is_no_whole_number_is_an_error(planned: Any) -> None:
    """vLLM's worker counts passes with the length; a fraction would end the engine."""
    controller = failing(planned, draft_length=4)
    assert controller.plan(LOAD).draft_length == 4
    assert controller.state()["policy_errors_total"] == 1


class PlansFields(FailingPolicy):
    """Makes the plan of these fields."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(**{"draft_length": 3, "reason": "planned"} | self.planned)


class PlansOthers(FailingPolicy):
    """Returns something with the fields of a plan, unchecked."""

    def plan(self, load: EngineLoad) -> Any:
        return SimpleNamespace(**asdict(DraftPlan(3, "planned")) | self.planned)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (PlansFields, {"reason": b"planned"}),
        (PlansFields, {"expected_tokens_per_s": np.float32(1.5)}),
        (PlansFields, {"rule": 0.5}),
        (PlansFields, {"rule": {"least_survival": 0.5}}),
        (PlansFields, {"rule": DraftRule}),
        (PlansOthers, {}),
    ],
    ids=str,
)
def test_what_is_no_plan_is_an_error(kind: type[FailingPolicy], fields: dict[str, Any]) -> None:
    """The control channel could not send it, or the workers would fail on it in every step."""
    controller = DraftLengthController(
        PluginSettings(policy="fixed", draft_length=4),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: kind(fields),
    )
    plan = controller.plan(LOAD)
    assert (plan.draft_length, plan.rule) == (4, None)
    json.dumps(controller.state())
    assert controller.state()["policy_errors_total"] == 1


class ChoosesPlanted(FailingPolicy):
    """Its widths are the given ones."""

    def choose_widths(self, confidences: Any, classes: Any, limits: Any) -> Any:
        return self.planned


@pytest.mark.parametrize(
    ("planned", "chosen"), [([0, 3], [0, 3]), ([0], None), ([0, 4], None), (None, None)]
)
def test_possible_widths_are_passed_on(planned: Any, chosen: Any) -> None:
    controller = DraftLengthController(
        PluginSettings(policy="fixed"),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: ChoosesPlanted(planned),
    )
    found = controller.choose_widths(np.full((2, 3), 0.5), ["greedy"] * 2, [3, 3])
    assert found == chosen
    assert controller.state()["policy_errors_total"] == (chosen is None)


def test_a_plan_keeps_its_rule() -> None:
    rule = DraftRule({}, 0.5, ())
    controller = DraftLengthController(
        PluginSettings(policy="fixed"),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: Planned(DraftPlan(3, "planned", rule=rule)),
    )
    assert controller.plan(LOAD).rule is rule
    assert controller.state()["policy_errors_total"] == 0


def test_a_length_without_graphs_is_shortened_to_one_that_has_them() -> None:
    """Plans of every policy, what an operator sets, and the safe plan."""
    controller = DraftLengthController(
        PluginSettings(policy="fixed"),
        EngineAbilities(8, "eagle", (0, 1, 3, 7)),
        make_policy=lambda name, **_: FailingPolicy(5),
    )
    plan = controller.plan(LOAD)
    assert (plan.draft_length, plan.reason) == (3, "planted; 5 has no CUDA graphs")
    controller.set({"ceiling": 2})
    assert controller.plan(LOAD).draft_length == 1
    controller.set({"ceiling": 8, "draft_length": 6})
    assert controller.state()["draft_length"] == 3
    assert controller.state()["allowed_lengths"] == (0, 1, 3, 7)
    assert controller.fall_back("planted", ValueError()).draft_length == 7
