"""The draft length in force, whatever policy and operator do."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.settings import PluginSettings, parse_settings
from paceline.governor.values import DraftPlan, EngineLoad, ReplayScores, StepSample

LOAD = EngineLoad(
    num_requests=2, context_tokens=100, prefill_tokens=0, num_waiting=0, max_draft_length=8
)


def sample(drafted: tuple[int, ...] = (3, 3), accepted: tuple[int, ...] = (2, 1)) -> StepSample:
    return StepSample(
        num_requests=2,
        asked_draft_length=3,
        drafted=drafted,
        accepted=accepted,
        verified_draft_tokens=sum(drafted),
        draft_length=3,
        prefill_tokens=0,
        context_tokens=100,
        duration_s=0.05,
        is_clean=True,
    )


def controller(**settings: Any) -> DraftLengthController:
    return DraftLengthController(
        PluginSettings(**{"policy": "fixed", **settings}), max_draft_length=8, method="draft_model"
    )


class FailingPolicy:
    """Plans whatever it is told, or raises it."""

    def __init__(self, planned: Any) -> None:
        self.planned = planned

    def observe(self, sample: StepSample) -> None:
        raise KeyError("planted")

    def plan(self, load: EngineLoad) -> DraftPlan:
        if isinstance(self.planned, Exception):
            raise self.planned
        return DraftPlan(self.planned, "planted")


def failing(planned: Any, draft_length: int | None = None) -> DraftLengthController:
    return DraftLengthController(
        PluginSettings(policy="fixed", draft_length=draft_length),
        max_draft_length=8,
        method="ngram",
        make_policy=lambda name, **_: FailingPolicy(planned),
    )


def test_fixed_without_a_length_is_the_static_setting() -> None:
    """`fixed` alone means num_speculative_tokens."""
    assert controller().plan(LOAD).draft_length == 8


@pytest.mark.parametrize("length", [0, 3, 8, 5])
def test_a_fixed_length_holds_from_the_next_plan(length: int) -> None:
    """An operator's length, 0 included, implies the policy fixed."""
    controlled = controller(policy="goodput")
    controlled.set({"draft_length": length})
    assert controlled.plan(LOAD).draft_length == length
    assert controlled.state()["policy"] == "fixed"


def test_the_ceiling_holds_every_policy() -> None:
    """Fixed at 8 under a ceiling of 2, and again at 8 when the ceiling is lifted."""
    controlled = controller()
    controlled.set({"ceiling": 2})
    assert (controlled.plan(LOAD).draft_length, controlled.state()["ceiling"]) == (2, 2)
    controlled.set({"ceiling": 8})
    assert controlled.plan(LOAD).draft_length == 8


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ({}, "at least one of"),
        ({"speed": 1}, "unknown key 'speed'; allowed are policy, draft_length, ceiling"),
        ({"draft_length": 9}, "draft_length is 9; allowed is a whole number from 0 .off. to 8"),
        ({"draft_length": -1}, "draft_length is -1"),
        ({"draft_length": True}, "draft_length is True"),
        ({"draft_length": "3"}, "draft_length is '3'"),
        ({"ceiling": 9}, "ceiling is 9"),
        ({"ceiling": 2, "draft_length": 3}, "from 0 .off. to 2, the ceiling in force"),
        ({"policy": "best"}, "policy is 'best'; allowed are goodput"),
        ({"policy": "schedule"}, "needs a schedule"),
        ({"policy": "goodput", "draft_length": 3}, "only fixed takes it"),
        ({"policy": 7}, "must be the name of a policy"),
    ],
)
def test_a_wrong_command_is_refused_in_words_and_changes_nothing(
    command: dict[str, Any], complaint: str
) -> None:
    """Policy, ceiling and plan are as before."""
    controlled = controller(draft_length=3)
    before = (controlled.plan(LOAD), controlled.state())
    with pytest.raises(ValueError, match=complaint):
        controlled.set(command)
    after = (controlled.plan(LOAD), controlled.state())
    assert before[0] == after[0]
    assert {**before[1], "steps_total": 2} == after[1]


def test_a_policy_keeps_what_it_learned_while_another_is_in_force() -> None:
    """Fixed for a while and back to goodput: the same object goes on."""
    controlled = controller(policy="goodput")
    learned = controlled._policy
    controlled.set({"draft_length": 3})
    controlled.set({"policy": "goodput"})
    assert controlled._policy is learned


class LookingBack(FailingPolicy):
    """Asks for hindsight with every plan."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(5, "planted", replay_scoring_tokens=64)


def test_an_order_for_replay_scoring_passes_the_ceiling() -> None:
    """Held at 2, and the order is as planned."""
    controlled = DraftLengthController(
        PluginSettings(policy="fixed"),
        max_draft_length=8,
        method="draft_model",
        make_policy=lambda name, **_: LookingBack(0),
    )
    assert controlled.plan(LOAD) == DraftPlan(5, "planted", replay_scoring_tokens=64)
    controlled.set({"ceiling": 2})
    plan = controlled.plan(LOAD)
    assert (plan.draft_length, plan.replay_scoring_tokens) == (2, 64)


@pytest.mark.parametrize("planned", [ZeroDivisionError("planted"), 9, -1])
def test_a_failing_policy_gives_the_static_setting(planned: Any) -> None:
    """An exception and a length out of bounds are the same: safe plan, counted, visible."""
    controlled = failing(planned)
    assert [controlled.plan(LOAD).draft_length for _ in range(3)] == [8, 8, 8]
    state = controlled.state()
    assert (state["safe_plan"], state["safe_plan_steps_total"]) == (True, 3)
    assert state["policy_errors_total"] == 3


def test_the_safe_plan_is_the_configured_length_under_the_ceiling() -> None:
    """Static setting 5: safe at 5, and at 2 when an operator said at most 2."""
    controlled = failing(ZeroDivisionError("planted"), draft_length=5)
    assert controlled.plan(LOAD).draft_length == 5
    controlled.set({"ceiling": 2})
    assert controlled.plan(LOAD).draft_length == 2


def test_each_kind_of_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Ten failing plans and ten failing observations: two lines, twenty counts."""
    controlled = failing(ZeroDivisionError("planted"))
    for _ in range(10):
        controlled.plan(LOAD)
        controlled.observe(sample())
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert controlled.state()["policy_errors_total"] == 20


def test_counts_are_vllms() -> None:
    """Drafts of 3 and 2 tokens with 2 and 0 accepted."""
    controlled = controller()
    controlled.count_drafts((3, 2), (2, 0))
    state = controlled.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (2, 5)
    assert (state["accepted_tokens_total"], state["accepted_per_position_total"]) == (
        2,
        [1, 1, 0, 0, 0, 0, 0, 0],
    )


def test_recent_figures_are_absent_until_measured() -> None:
    """null before the first draft; then accepted 3 of 6, and 5 tokens in 50 ms."""
    controlled = controller()
    assert controlled.state()["accepted_fraction"] is None
    assert controlled.state()["goodput_tokens_per_s"] is None
    controlled.observe(sample())
    assert controlled.state()["accepted_fraction"] == pytest.approx(0.5)
    assert controlled.state()["goodput_tokens_per_s"] == pytest.approx(100.0)
    controlled.observe(replace(sample(), prefill_tokens=500, duration_s=0.5))
    assert controlled.state()["goodput_tokens_per_s"] == pytest.approx(100.0)  # of decoding alone


def test_commands_and_plans_from_two_threads_never_mix() -> None:
    """While one thread plans, another switches 2000 times: every plan is one of the two."""
    controlled = controller()
    plans: set[int] = set()
    stop = threading.Event()

    def keep_planning() -> None:
        while not stop.is_set():
            plans.add(controlled.plan(LOAD).draft_length)

    thread = threading.Thread(target=keep_planning)
    thread.start()
    for turn in range(2000):
        controlled.set({"draft_length": 3} if turn % 2 else {"draft_length": 6, "ceiling": 8})
    stop.set()
    thread.join(timeout=10.0)
    assert plans <= {8, 3, 6}
    assert controlled.state()["policy_errors_total"] == 0


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"paceline": 3}, "must be a JSON object"),
        ({"paceline": {"polcy": "off"}}, "unknown key 'polcy'; allowed are policy"),
        ({"paceline": {"policy": "best"}}, "policy is 'best'"),
        ({"paceline": {"draft_length": 9}}, "draft_length is 9; .* 0 .off. to 8"),
        ({"paceline": {"policy": "schedule"}}, 'needs "schedule"'),
        ({"paceline": {"schedule": 3}}, "must be a list of ranges"),
        ({"paceline": {"schedule": [3]}}, "each entry must be"),
        ({"paceline": {"schedule": [[2, 3, 1]]}}, "must start at 1"),
        ({"paceline": {"control_socket": "here"}}, "absolute path"),
        ({"paceline": {"control_socket": "/" + "x" * 107}}, "at most 107"),
    ],
)
def test_wrong_settings_are_refused_in_words(given: object, complaint: str) -> None:
    """What was given, what is allowed."""
    with pytest.raises(ValueError, match=complaint):
        parse_settings(given, max_draft_length=8)


@pytest.mark.parametrize("given", [{}, None, {"other": 1}, {"paceline": {}}])
def test_no_settings_are_the_defaults(given: object) -> None:
    """Goodput, no channel; other plugins' keys are not ours to judge."""
    assert parse_settings(given, max_draft_length=8) == PluginSettings(policy="goodput")


def test_settings_are_read() -> None:
    """Every key once."""
    given = {
        "paceline": {
            "policy": "schedule",
            "draft_length": 2,
            "schedule": [[1, 4, 5], [5, 64, 0]],
            "control_socket": "/run/c.sock",
        }
    }
    assert parse_settings(given, max_draft_length=8) == PluginSettings(
        "schedule", 2, ((1, 4, 5), (5, 64, 0)), "/run/c.sock"
    )


class Planned:
    """Plans what it is given, in turn."""

    def __init__(self, *plans: DraftPlan) -> None:
        self._plans = list(plans)

    def observe(self, sample: StepSample) -> None:
        """Learns nothing."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return self._plans.pop(0)


def test_where_the_time_went_is_counted() -> None:
    """Steps of 50 ms: two off, one probe, two on; a pass of 2 ms in hindsight in one of them."""
    plans = [DraftPlan(length, "planned") for length in (0, 0, 3, 3)]
    plans.insert(2, DraftPlan(2, "planned", is_exploring=True))
    plans[-1] = replace(plans[-1], expected_tokens_per_s=80.0)
    controlled = DraftLengthController(
        PluginSettings(),
        max_draft_length=8,
        method="draft_model",
        make_policy=lambda name, **_: Planned(*plans),
    )
    for _ in range(5):
        length = controlled.plan(LOAD).draft_length
        report = ReplayScores((8,), (3,), 64, 0, 0.002) if length == 2 else None
        controlled.observe(replace(sample(), draft_length=length, replay_scores=report))
    state = controlled.state()
    assert state["draft_length_changes_total"] == 1
    assert state["seconds_total"] == pytest.approx(0.25)
    assert state["off_seconds_total"] == pytest.approx(0.10)
    assert state["exploring_seconds_total"] == pytest.approx(0.05)
    assert state["safe_plan_seconds_total"] == 0.0
    assert (state["hindsight_seconds_total"], state["hindsight_drafts_total"]) == (0.002, 1)
    assert state["expected_goodput_tokens_per_s"] == 80.0


def test_the_time_under_the_safe_plan_is_counted() -> None:
    controlled = failing(RuntimeError("planted"))
    controlled.plan(LOAD)
    controlled.observe(sample())
    assert controlled.state()["safe_plan_seconds_total"] == pytest.approx(0.05)


def test_changes_are_logged_with_their_evidence_and_not_all_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Lengths that change at every step: the first change is told at once, then one in 20 steps."""
    plans = [DraftPlan(step % 2, f"because of {step}") for step in range(42)]
    controlled = DraftLengthController(
        PluginSettings(),
        max_draft_length=8,
        method="draft_model",
        make_policy=lambda name, **_: Planned(*plans),
    )
    caplog.set_level("INFO", logger="vllm.paceline.telemetry")
    for _ in plans:
        controlled.plan(LOAD)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "Governor: draft length 0 -> 1: because of 1 (changes since the last line: 1)",
        "Governor: draft length 0 -> 1: because of 21 (changes since the last line: 20)",
        "Governor: draft length 0 -> 1: because of 41 (changes since the last line: 20)",
    ]


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
def test_an_idle_engine_shows_what_was_set(command: dict[str, Any], length: int) -> None:
    """Before the next step: the length where one was named, else the last one, by the ceiling."""
    controlled = controller(draft_length=6)
    controlled.plan(LOAD)
    controlled.set(command)
    state = controlled.state()
    assert (state["draft_length"], state["reason"]) == (length, "as set; the next step plans")
