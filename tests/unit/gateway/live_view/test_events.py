"""Events are found by comparing two snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.gateway.live_view.events import EventFinder
from paceline.runtime.gateway.live_view.values import Event, ReplicaView
from unit.gateway.live_view.views import governed, snapshot, view


def events(before: ReplicaView, after: ReplicaView) -> list[Event]:
    finder = EventFinder()
    earlier = snapshot(before)
    finder.find(None, earlier)
    return finder.find(earlier, snapshot(after, at_s=1.0))


def texts(before: ReplicaView, after: ReplicaView) -> list[str]:
    return [event.text for event in events(before, after)]


def test_nothing_is_reported_of_the_first_snapshot() -> None:
    assert EventFinder().find(None, snapshot(view(state="down"))) == []


def test_nothing_is_reported_while_nothing_changes() -> None:
    assert events(governed(num_steps=1), governed(num_steps=50)) == []


def test_a_new_length_is_an_event_with_the_reason_of_the_policy() -> None:
    before = governed(length=6, num_changes=3)
    after = governed(
        length=2, num_changes=4, change_reason="2 of 8: acceptance 0.61, 0.40; 41 ms a step"
    )
    (event,) = events(before, after)
    assert event == Event(
        1.0, "length", "a", "length 6 → 2 of 8: acceptance 0.61, 0.40; 41 ms a step"
    )


def test_a_length_that_changed_and_changed_back_is_an_event() -> None:
    before, after = governed(num_changes=3), governed(num_changes=5, change_reason="r")
    assert texts(before, after) == ["length back at 4: r"]


def test_a_change_is_an_event_also_after_a_missed_answer_of_the_governor() -> None:
    finder = EventFinder()
    shots = [
        snapshot(governed(length=6, num_changes=3)),
        snapshot(view()),
        snapshot(governed(length=2, num_changes=4, change_reason="r"), at_s=2.0),
    ]
    found = [finder.find(*pair) for pair in zip([None, *shots], shots, strict=False)]
    assert found == [[], [], [Event(2.0, "length", "a", "length 6 → 2: r")]]
    assert finder.find(shots[-1], shots[-1]) == []


def test_what_a_governor_reported_is_forgotten_when_its_replica_leaves() -> None:
    finder = EventFinder()
    first, empty, last = (
        snapshot(governed(num_changes=3)),
        snapshot(),
        snapshot(governed(num_changes=9)),
    )
    finder.find(None, first)
    finder.find(first, empty)
    assert [event.kind for event in finder.find(empty, last)] == ["joined"]


class Engine:
    """Counts drafts like a governor: 100 per snapshot, with a given acceptance by position."""

    def __init__(self) -> None:
        self.num_drafts = 0
        self.accepted = [0] * 6
        self.finder = EventFinder()
        self.last = None
        self.at_s = 0.0

    def step(self, length: int, *acceptance: float, num_changes: int, **changes: Any) -> list[str]:
        """One snapshot later; the events. `acceptance` is that of positions 1, 2, …"""
        reached = 100.0
        self.num_drafts += 100
        for position, fraction in enumerate(acceptance[:length]):
            reached *= fraction
            self.accepted[position] += round(reached)
        governor = governed(
            length=length,
            num_changes=num_changes,
            num_drafts=self.num_drafts,
            accepted_per_position=tuple(self.accepted),
            change_reason="the policy's reason",
        )
        self.at_s += 1.0
        now = snapshot(governor, at_s=self.at_s)
        found = self.finder.find(self.last, now)
        self.last = now
        return [event.text for event in found]


def test_the_position_whose_acceptance_fell_explains_a_shorter_length() -> None:
    engine = Engine()
    for _ in range(10):
        assert engine.step(6, 0.9, 0.8, 0.8, num_changes=0) == []
    for _ in range(2):
        assert engine.step(6, 0.9, 0.31, 0.7, num_changes=0) == []
    found = engine.step(2, 0.9, 0.31, num_changes=1)
    assert found == ["length 6 → 2: acceptance of position 2 fell to 0.31"]


def test_the_position_whose_acceptance_rose_explains_a_longer_length() -> None:
    engine = Engine()
    for _ in range(10):
        engine.step(2, 0.8, 0.4, num_changes=0)
    for _ in range(2):
        engine.step(2, 0.9, 0.8, num_changes=0)
    found = engine.step(5, 0.9, 0.8, 0.8, num_changes=1)
    assert found == ["length 2 → 5: acceptance of position 2 rose to 0.80"]


def test_a_small_change_of_acceptance_explains_nothing() -> None:
    engine = Engine()
    for _ in range(10):
        engine.step(4, 0.8, 0.8, num_changes=0)
    for _ in range(2):
        engine.step(4, 0.75, 0.75, num_changes=0)
    assert engine.step(3, 0.75, 0.75, num_changes=1) == ["length 4 → 3: the policy's reason"]


def test_positions_beyond_the_length_say_nothing_about_acceptance() -> None:
    """Their count stands still when drafts get shorter; that is no fall."""
    engine = Engine()
    for _ in range(10):
        engine.step(4, 0.9, 0.9, 0.9, 0.9, num_changes=0)
    engine.step(2, 0.9, 0.9, num_changes=1)
    for _ in range(3):
        engine.step(2, 0.9, 0.9, num_changes=1)
    assert engine.step(1, 0.9, num_changes=2) == ["length 2 → 1: the policy's reason"]


def test_the_second_in_which_drafts_got_longer_says_nothing_of_the_new_positions() -> None:
    """For a part of it, drafts were still short."""
    engine = Engine()
    for _ in range(5):
        engine.step(2, 0.9, 0.9, num_changes=0)
    engine.step(5, 0.9, 0.9, num_changes=1)  # none was accepted at position 3
    for _ in range(3):
        engine.step(5, 0.9, 0.9, 0.9, num_changes=1)
    assert engine.step(6, 0.9, 0.9, 0.9, num_changes=2) == ["length 5 → 6: the policy's reason"]


def test_a_new_engine_begins_its_counts_anew() -> None:
    engine = Engine()
    engine.num_drafts, engine.accepted = 1000, [900] * 6
    engine.step(1, 0.9, num_changes=0)
    engine.num_drafts, engine.accepted = 0, [0] * 6
    for _ in range(16):
        engine.step(1, 0.5, num_changes=0)
    assert engine.step(2, 0.5, num_changes=1) == ["length 1 → 2: the policy's reason"]


def test_a_length_that_changed_back_is_not_explained_by_acceptance() -> None:
    engine = Engine()
    for _ in range(10):
        engine.step(2, 0.4, num_changes=0)
    for _ in range(3):
        engine.step(2, 0.9, num_changes=0)
    assert engine.step(2, 0.9, num_changes=2) == ["length back at 2: the policy's reason"]


@pytest.mark.parametrize(
    ("length_before", "length", "running_before", "running", "is_cause"),
    [(4, 2, 4, 6, True), (4, 2, 4, 5, False), (2, 4, 6, 4, True), (2, 4, 4, 6, False)],
)
def test_another_load_explains_a_length_only_in_its_direction(
    length_before: int, length: int, running_before: int, running: int, is_cause: bool
) -> None:
    def at(length: int, num_running: int, num_changes: int) -> ReplicaView:
        made = governed(length=length, num_changes=num_changes, change_reason="r")
        return view(governor=made.governor, num_running=num_running)

    (text,) = texts(at(length_before, running_before, 0), at(length, running, 1))
    expected = f"the engine computes {running} requests, {running_before} before"
    assert text.partition(": ")[2] == (expected if is_cause else "r")


@pytest.mark.parametrize(
    ("before", "after", "kind", "text", "is_problem"),
    [
        (
            view(), view(state="down", reason="no answer"),
            "state", "ready → down: no answer", True,
        ),
        (view(state="starting"), view(), "state", "starting → ready", False),
        (view(), view(breaker="open"), "breaker", "circuit breaker closed → open", True),
        (
            view(breaker="half_open"), view(),
            "breaker", "circuit breaker half-open → closed", False,
        ),
        (
            view(num_restarts=1), view(num_restarts=2),
            "restart", "the engine was restarted", True,
        ),
        (
            view(num_restarts=1), view(num_restarts=2, num_planned_restarts=1),
            "restart", "the engine is restarted, as was asked for", False,
        ),
        (view(draft="old"), view(draft="new"), "draft", "drafts come from new", False),
        (
            governed(), governed(uses_static_setting=True, reason="static setting, because of X"),
            "static_setting", "static setting, because of X", True,
        ),
        (governed(uses_static_setting=True), governed(), "static_setting", "plans again", False),
    ],
)  # fmt: skip
def test_each_change_is_one_event(
    before: ReplicaView, after: ReplicaView, kind: str, text: str, is_problem: bool
) -> None:
    assert events(before, after) == [Event(1.0, kind, "a", text, is_problem)]


def test_a_crash_in_the_same_second_as_a_planned_restart_is_a_problem_of_its_own() -> None:
    before = view(num_restarts=2, num_planned_restarts=1)
    found = events(before, view(num_restarts=4, num_planned_restarts=2))
    assert [(event.kind, event.is_problem) for event in found] == [
        ("restart", False), ("restart", True),
    ]  # fmt: skip


def test_the_trials_of_a_replica_that_keeps_failing_are_no_events() -> None:
    assert events(view(breaker="open"), view(breaker="half_open")) == []
    assert events(view(breaker="half_open"), view(breaker="open")) == []


def test_a_lasting_shift_of_acceptance_is_a_problem() -> None:
    (event,) = events(governed(num_shifts=1), governed(num_shifts=2))
    assert (event.kind, event.is_problem) == ("drift", True)


def test_another_policy_is_an_event() -> None:
    other = view(governor=governed().governor and type(governed().governor)(policy="fixed"))
    assert texts(governed(), other) == ["policy goodput → fixed"]


def test_replicas_that_join_and_leave_are_events_and_many_are_counted() -> None:
    finder = EventFinder()
    before = snapshot(view("old"))
    found = finder.find(before, snapshot(*(view(f"r{i}") for i in range(8))))
    assert [(event.kind, event.replica) for event in found] == [
        ("joined", "r0"), ("joined", "r1"), ("joined", "r2"), ("joined", "r3"), ("joined", "r4"),
        ("joined", "3 others"), ("left", "old"),
    ]  # fmt: skip
