"""From what is known of a replica to its view."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from paceline.runtime.gateway.fleet.load import ReplicaLoad
from paceline.runtime.gateway.fleet.status import LoadReading
from paceline.runtime.gateway.live_view.documents import render_snapshot
from paceline.runtime.gateway.live_view.readings import TrafficReading
from paceline.runtime.gateway.live_view.replica_views import (
    GeneratedTokens,
    view_governor,
    view_replica,
)
from paceline.runtime.gateway.live_view.snapshot import Gathered, SnapshotMaker, view_fleet
from paceline.runtime.gateway.live_view.values import FleetView, ReplicaView
from paceline.runtime.gateway.signals import ReplicaSignals
from unit.gateway.live_view.views import reading, view

STATE: dict[str, object] = {
    "policy": "goodput",
    "draft_length": 3,
    "settled_length": 4,
    "ceiling": 8,
    "reason": "2 of 8: acceptance 0.61, 0.40; 41 ms a step",
    "accepted_fraction": 0.75,
    "goodput_tokens_per_s": 80.0,
    "expected_goodput_tokens_per_s": 90.0,
    "steps_total": 100,
    "num_drafts_total": 10,
    "accepted_per_position_total": [8, 4],
    "draft_length_changes_total": 2,
    "safe_plan": False,
    "forecast_step_seconds": [0.02, 0.03],
    "step_slowdown": 1.25,
    "drift": {"categories": {"greedy": {"events_total": 1}, "code": {"events_total": 2}}},
}


def test_a_governed_replica_shows_what_its_governor_reports() -> None:
    shown = view_replica(reading(governor=STATE), None, None)
    assert (shown.draft_length, shown.accepted_fraction) == (4, 0.75)
    assert (shown.tokens_per_s, shown.expected_tokens_per_s) == (80.0, 90.0)
    assert (shown.breaker, shown.num_in_flight, shown.model) == ("closed", 2, "model")
    governor = shown.governor
    assert governor is not None
    assert (governor.ceiling, governor.num_changes, governor.num_shifts) == (8, 2, 3)
    assert governor.accepted_per_position == (8, 4)
    assert (governor.forecast_step_s, governor.step_slowdown) == ((0.02, 0.03), 1.25)


def test_a_length_that_is_only_tried_is_not_shown() -> None:
    assert view_replica(reading(governor=STATE), None, None).draft_length == 4
    without = {key: value for key, value in STATE.items() if key != "settled_length"}
    assert view_replica(reading(governor=without), None, None).draft_length == 3


def test_an_idle_engine_has_no_goodput() -> None:
    """The governor continues to report the last steps."""
    before = view_replica(reading(governor=STATE), None, None)
    idle = view_replica(reading(governor=STATE), before, None)
    assert (idle.tokens_per_s, idle.expected_tokens_per_s) == (None, None)
    at_work = view_replica(reading(governor={**STATE, "steps_total": 101}), before, None)
    assert at_work.tokens_per_s == 80.0


def test_the_expectation_holds_while_another_length_is_tried() -> None:
    before = view_replica(reading(governor=STATE), None, None)
    trying = {**STATE, "steps_total": 101, "expected_goodput_tokens_per_s": None}
    assert view_replica(reading(governor=trying), before, None).expected_tokens_per_s == 90.0
    other_policy = {**trying, "policy": "fixed"}
    assert view_replica(reading(governor=other_policy), before, None).expected_tokens_per_s is None
    safe = {**trying, "safe_plan": True}
    assert view_replica(reading(governor=safe), before, None).expected_tokens_per_s is None


@pytest.mark.parametrize("value", ["4", -1, 2.5, True, None, [4]])
def test_a_count_of_another_type_is_unknown(value: object) -> None:
    shown = view_governor({"ceiling": value, "accepted_per_position_total": [1, value]})
    assert shown.ceiling is None
    assert shown.accepted_per_position == ()


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf")])
def test_a_number_that_is_none_is_unknown(value: float) -> None:
    state = {**STATE, "goodput_tokens_per_s": value, "steps_total": value, "ceiling": value}
    shown = view_replica(reading(governor=state), None, None)
    assert shown.tokens_per_s is None
    assert shown.governor is not None
    assert (shown.governor.num_steps, shown.governor.ceiling) == (None, None)


def test_a_text_that_cannot_be_encoded_is_replaced() -> None:
    assert view_governor({"reason": "a\ud800b"}).reason == "a\ufffdb"


def test_long_texts_of_an_engine_are_cut() -> None:
    shown = view_governor({"reason": "x" * 100_000, "policy": 7})
    assert shown.reason is not None
    assert len(shown.reason) == 200
    assert shown.policy is None


def test_a_replica_without_a_governor_shows_what_its_metrics_say() -> None:
    signals = ReplicaSignals(num_running=3, num_waiting=1, accepted_fraction=0.5)
    shown = view_replica(reading(signals=signals), None, GeneratedTokens(1.0, 50, per_s=25.0))
    assert (shown.num_running, shown.num_waiting, shown.accepted_fraction) == (3, 1, 0.5)
    assert (shown.tokens_per_s, shown.draft_length, shown.governor) == (25.0, None, None)


def test_generated_tokens_are_a_rate_between_two_readings() -> None:
    first = GeneratedTokens(10.0, 100)
    assert first.then(10.0, 100) is first  # the same reading
    second = first.then(15.0, 350)
    assert second.per_s == 50.0
    assert second.then(20.0, 350).per_s is None  # idle
    assert second.then(20.0, 20).per_s == 4.0  # restarted: it counts from zero


def test_the_rate_of_a_replica_comes_from_its_readings() -> None:
    maker = SnapshotMaker()

    def taken(read_at_s: float, total: int) -> float | None:
        load = LoadReading(ReplicaLoad(generation_tokens_total=total), read_at_s)
        gathered = Gathered(0.0, [reading(load=load)], TrafficReading(read_at_s))
        return maker.make(gathered).replicas[0].tokens_per_s

    assert [taken(0.0, 0), taken(5.0, 100), taken(5.0, 100)] == [None, 20.0, 20.0]


def test_a_missed_answer_of_the_governor_makes_an_idle_engine_no_busy_one() -> None:
    maker = SnapshotMaker()
    states = (STATE, None, STATE, {**STATE, "steps_total": 101})
    taken = [
        maker.make(Gathered(0.0, [reading(governor=state)], TrafficReading(0.0))).replicas[0]
        for state in states
    ]
    assert [shown.tokens_per_s for shown in taken] == [80.0, None, None, 80.0]


def test_the_fleet_is_the_mean_or_the_sum_of_those_that_report() -> None:
    views = [
        view("a", draft_length=2, accepted_fraction=0.5, tokens_per_s=10.0),
        view("b", draft_length=6, tokens_per_s=30.0, expected_tokens_per_s=35.0),
        view("c"),
    ]
    fleet = view_fleet(views)
    assert (fleet.draft_length, fleet.accepted_fraction) == (4, 0.5)
    assert (fleet.tokens_per_s, fleet.expected_tokens_per_s) == (30.0, 35.0)
    assert view_fleet([view("c")]).draft_length is None


def test_measured_and_expected_goodput_are_sums_over_the_same_replicas() -> None:
    with_both = view("a", tokens_per_s=30.0, expected_tokens_per_s=35.0)
    measured_only, idle = view("b", tokens_per_s=10.0), view("a")

    def sums(*views: ReplicaView, governed: tuple[str, ...]) -> tuple[float | None, float | None]:
        fleet = view_fleet(views, governed)
        return fleet.tokens_per_s, fleet.expected_tokens_per_s

    assert sums(with_both, measured_only, governed=("a",)) == (30.0, 35.0)
    assert sums(idle, measured_only, governed=("a",)) == (None, None)
    assert sums(measured_only, governed=("b",)) == (10.0, None)
    assert sums(idle, measured_only, governed=()) == (10.0, None)


def test_an_idle_governor_leaves_a_gap_also_while_replicas_without_one_are_at_work() -> None:
    maker = SnapshotMaker()

    def fleet_at(read_at_s: float, total: int) -> FleetView:
        load = LoadReading(ReplicaLoad(generation_tokens_total=total), read_at_s)
        replicas = [reading("a", governor=STATE), reading("b", load=load)]
        return maker.make(Gathered(0.0, replicas, TrafficReading(read_at_s))).fleet

    assert fleet_at(0.0, 0).tokens_per_s == 80.0
    assert fleet_at(5.0, 100).tokens_per_s is None  # the steps of a are the same


def test_a_rate_is_dropped_when_its_readings_are_too_old() -> None:
    maker = SnapshotMaker()

    def taken(read_at_s: float, total: int, *, is_load_current: bool) -> float | None:
        load = LoadReading(ReplicaLoad(generation_tokens_total=total), read_at_s)
        one = replace(reading(load=load), is_load_current=is_load_current)
        gathered = Gathered(0.0, [one], TrafficReading(read_at_s))
        return maker.make(gathered).replicas[0].tokens_per_s

    assert [taken(0.0, 0, is_load_current=True), taken(5.0, 100, is_load_current=True)] == [
        None,
        20,
    ]
    assert taken(5.0, 100, is_load_current=False) is None


def test_a_snapshot_counts_the_requests_of_all_replicas() -> None:
    gathered = Gathered(5.0, [reading("a"), reading("b")], TrafficReading(0.0))
    snapshot = SnapshotMaker().make(gathered)
    assert snapshot.traffic.num_in_flight == 4
    assert [one.name for one in snapshot.replicas] == ["a", "b"]


def test_texts_that_cannot_be_encoded_do_not_fail_a_snapshot() -> None:
    """A folder whose name is not UTF-8, and a reason that quotes it."""
    one = reading(draft="/models/\udcff")
    one = replace(one, status=replace(one.status, reason="no file /models/\udcff"))
    taken = SnapshotMaker().make(Gathered(0.0, [one], TrafficReading(0.0)))
    (shown,) = json.loads(msgspec.json.encode(render_snapshot(taken)))["replicas"]
    assert (shown["draft"], shown["reason"]) == ("/models/\ufffd", "no file /models/\ufffd")
