"""Orders of worker probes, when they are due, and the steps that they lengthen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.scheduler.first_token_schedule import FirstTokenSchedule
from paceline.engine.scheduler.observer import StepObserver
from paceline.engine.scheduler.worker_probes import WorkerProbes, find_probes
from paceline.engine.worker.probe_reports import (
    FIRST_TOKEN_ORDER,
    FIRST_TOKEN_REPORT,
    REPLAY_ORDER,
    REPLAY_REPORT,
)
from paceline.governor.values import DraftPlan, EngineLoad

IDLE = DraftPlan(0, "planted")
ORDER = DraftPlan(0, "planted", replay_scoring_tokens=64)
SCORES: dict[str, Any] = {
    "drafted": (4,),
    "accepted": (1,),
    "computed_tokens": 20,
    "missing_tokens": 0,
    "seconds": 0.01,
}


def load_with(**probes: bool) -> EngineLoad:
    return EngineLoad(1, 100, 0, 0, 8, **probes)


REPLAY_LOAD = load_with(has_replay_scoring=True)


def replay_probes() -> WorkerProbes:
    return WorkerProbes(has_replay_scoring=True, first_tokens=None)


def observer() -> StepObserver:
    return StepObserver(drafter_rests=True, has_replay_scoring=True)


def orders(probes: WorkerProbes, plans: list[DraftPlan], load: EngineLoad) -> list[bool]:
    """Whether probes lengthen each of these steps."""
    return [probes.order(SimpleNamespace(), plan, load) for plan in plans]


def test_an_order_lengthens_every_step_until_its_report() -> None:
    """The workers may record target probabilities for some steps before the pass."""
    probes = replay_probes()
    assert orders(probes, [IDLE, ORDER, IDLE, IDLE], REPLAY_LOAD) == [False, True, True, True]
    report = SimpleNamespace(**{REPLAY_REPORT: SCORES})
    assert list(probes.pass_reports(observer(), report)) == []
    assert orders(probes, [IDLE, IDLE], REPLAY_LOAD) == [False, False]


def test_a_failed_pass_ends_the_wait_for_its_report() -> None:
    probes = replay_probes()
    orders(probes, [ORDER], REPLAY_LOAD)
    failed = SimpleNamespace(**{REPLAY_REPORT: {"failed": "planted"}})
    watching = observer()
    assert list(probes.pass_reports(watching, failed)) == []
    assert orders(probes, [IDLE], REPLAY_LOAD) == [False]
    output = SimpleNamespace(
        num_scheduled_tokens={}, scheduled_spec_decode_tokens={}, total_num_scheduled_tokens=0
    )
    load = watching.measure_load(output, {}, num_waiting=0, max_draft_length=8)
    assert not load.has_replay_scoring


def test_an_invalid_report_is_returned_as_an_error_and_ends_the_wait() -> None:
    probes = replay_probes()
    orders(probes, [ORDER], REPLAY_LOAD)
    wrong = SimpleNamespace(**{REPLAY_REPORT: {**SCORES, "seconds": -1.0}})
    [error] = probes.pass_reports(observer(), wrong)
    assert "seconds" in str(error)
    assert orders(probes, [IDLE], REPLAY_LOAD) == [False]


def test_drafts_without_a_report_do_not_end_the_wait() -> None:
    probes = replay_probes()
    orders(probes, [ORDER], REPLAY_LOAD)
    assert list(probes.pass_reports(observer(), SimpleNamespace())) == []
    assert orders(probes, [IDLE], REPLAY_LOAD) == [True]


def test_a_report_that_never_comes_is_not_awaited_for_ever() -> None:
    """The order's step, 16 in which the workers may record, one to spare; then a new order."""
    probes = replay_probes()
    for _ in range(2):
        lengthened = orders(probes, [ORDER, *[IDLE] * 63], REPLAY_LOAD)
        assert lengthened == [True] * 18 + [False] * 46


def test_an_order_may_be_for_a_single_token() -> None:
    one = DraftPlan(0, "planted", replay_scoring_tokens=1)
    assert orders(replay_probes(), [one], REPLAY_LOAD) == [True]


class Workers:
    """An executor whose workers answer what the probes ask."""

    def __init__(self, has_replay_scoring: bool, head_fraction: float | None) -> None:
        self._answers = {"_has_replay_scoring": has_replay_scoring, "_head_fraction": head_fraction}

    def collective_rpc(self, method: Any) -> list[Any]:
        return [self._answers[method.__name__]] * 2


@pytest.mark.parametrize(("fraction", "interval"), [(0.07, 35), (None, None)])
@pytest.mark.parametrize("scores", [True, False])
def test_the_probes_are_those_that_all_workers_support(
    scores: bool, fraction: float | None, interval: int | None
) -> None:
    probes = find_probes(Workers(scores, fraction))
    assert probes.has_replay_scoring is scores
    found = None if probes.first_tokens is None else probes.first_tokens.interval_steps
    assert found == interval


def test_without_an_executor_there_are_no_probes() -> None:
    probes = find_probes(None)
    assert (probes.has_replay_scoring, probes.first_tokens) == (False, None)


def test_an_order_reaches_the_workers_that_can_carry_it_out() -> None:
    probes = replay_probes()
    output = SimpleNamespace()
    assert not probes.order(output, ORDER, load_with())
    assert not hasattr(output, REPLAY_ORDER)
    assert probes.order(output, ORDER, REPLAY_LOAD)
    assert getattr(output, REPLAY_ORDER) == 64


FIRST_TOKENS = DraftPlan(0, "planted", requests_first_tokens=True)


@pytest.mark.parametrize("supported", [True, False])
def test_first_tokens_are_ordered_where_they_are_due_and_supported(supported: bool) -> None:
    """One step in five, and the steps between are not lengthened."""
    probes = WorkerProbes(
        has_replay_scoring=False, first_tokens=FirstTokenSchedule(0.001) if supported else None
    )
    load = load_with(has_first_token_verdicts=True)
    outputs = [SimpleNamespace() for _ in range(10)]
    lengthened = [probes.order(output, FIRST_TOKENS, load) for output in outputs]
    due = [supported and (i + 1) % 5 == 0 for i in range(10)]
    assert lengthened == due
    assert [getattr(output, FIRST_TOKEN_ORDER, False) for output in outputs] == due


def test_first_token_verdicts_reach_the_observer() -> None:
    watching = StepObserver(drafter_rests=False, has_first_token_verdicts=True)
    probes = WorkerProbes(has_replay_scoring=False, first_tokens=FirstTokenSchedule(0.001))
    report = SimpleNamespace(**{FIRST_TOKEN_REPORT: {"failed": "planted"}})
    assert list(probes.pass_reports(watching, report)) == []
    output = SimpleNamespace(
        num_scheduled_tokens={}, scheduled_spec_decode_tokens={}, total_num_scheduled_tokens=0
    )
    load = watching.measure_load(output, {}, num_waiting=0, max_draft_length=8)
    assert not load.has_first_token_verdicts


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
