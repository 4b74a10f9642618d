"""Which engine leaves service, when, and what follows from each failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.gateway.admin.draft_roll import (
    Action,
    DraftRoll,
    EngineView,
    Phase,
    RollState,
    Step,
)
from paceline.runtime.gateway.time_limits import DRAFT_WAIT_S, DRAFT_WATCH_S

READY = EngineView("ready", num_others_ready=1, revision="rev")
PENDING = replace(READY, is_change_pending=True)
STARTING = EngineView("starting", num_restarts=1, revision="rev")
CHANGED = replace(READY, num_restarts=1)
A_B = DraftRoll((Step("a", "rev"), Step("b", "rev")))


class Course:
    """A roll and what it has done so far, second by second."""

    def __init__(self, roll: DraftRoll = A_B, **views: EngineView) -> None:
        self.roll = roll
        self.views = {"a": READY, "b": READY, **views}
        self.now_s = 100.0

    def see(self, after_s: float = 1.0, **views: EngineView) -> tuple[Action, ...]:
        """The actions for the engine whose turn it is, when the views change to these."""
        self.now_s += after_s
        self.views |= views
        self.roll, actions = self.roll.advance(self.views, self.now_s)
        return actions

    @property
    def phases(self) -> list[str]:
        return [step.phase.value for step in self.roll.steps]

    def start_a(self) -> None:
        """The first engine has left service with the new draft."""
        assert self.see() == (Action.CHANGE,)
        assert self.see(a=PENDING) == (Action.RESTART,)
        assert self.see(a=replace(PENDING, is_restarting=True)) == ()
        assert self.phases == ["draining", "waiting"]
        assert self.see(a=STARTING) == ()
        assert self.phases == ["starting", "waiting"]

    def watch_a(self) -> None:
        """The first engine serves with the new draft."""
        self.start_a()
        assert self.see(a=CHANGED) == ()
        assert self.phases == ["watched", "waiting"]


def test_engines_are_swapped_one_after_the_other() -> None:
    course = Course()
    course.watch_a()
    assert course.see(after_s=DRAFT_WATCH_S - 0.5) == ()
    assert course.phases == ["watched", "waiting"]
    assert course.see(after_s=0.5) == ()
    assert course.phases == ["swapped", "waiting"]
    assert course.see() == (Action.CHANGE,)
    assert course.phases == ["swapped", "draining"]
    course.see(b=PENDING)
    course.see(b=STARTING)
    course.see(b=CHANGED)
    assert course.roll.state is RollState.RUNNING
    course.see(after_s=DRAFT_WATCH_S)
    assert course.phases == ["swapped", "swapped"]
    assert course.roll.state is RollState.COMPLETED
    assert course.see() == ()


def test_an_engine_stays_in_service_while_no_other_is_ready() -> None:
    course = Course(a=replace(READY, num_others_ready=0))
    assert course.see() == ()
    assert course.phases == ["waiting", "waiting"]
    assert course.roll.steps[0].reason == "no other replica is ready"
    assert course.see(a=READY) == (Action.CHANGE,)


def test_an_outage_can_be_allowed() -> None:
    alone = replace(READY, num_others_ready=0)
    course = Course(replace(A_B, allow_outage=True), a=alone)
    assert course.see() == (Action.CHANGE,)
    assert course.see(a=replace(alone, is_change_pending=True)) == (Action.RESTART,)


def test_waiting_for_others_has_an_end() -> None:
    course = Course(a=replace(READY, num_others_ready=0))
    course.see()
    course.see(after_s=DRAFT_WAIT_S - 1)
    assert course.roll.state is RollState.RUNNING
    assert course.see(after_s=1) == ()
    assert course.roll.state is RollState.STOPPED
    assert course.roll.failure == "a has waited 600 s: no other replica is ready"
    assert course.see(a=READY) == ()


def test_the_wait_for_others_is_counted_anew() -> None:
    """Two waits with an engine in between are not one long wait."""
    course = Course(a=replace(READY, num_others_ready=0))
    course.see()
    course.see(after_s=DRAFT_WAIT_S - 1, a=READY)
    course.see(a=replace(PENDING, num_others_ready=0))
    assert course.phases == ["waiting", "waiting"]
    course.see(after_s=DRAFT_WAIT_S - 1, a=replace(READY, num_others_ready=0))
    course.see(after_s=DRAFT_WAIT_S - 1)
    assert course.roll.state is RollState.RUNNING


def test_a_draining_engine_returns_when_the_others_are_gone() -> None:
    course = Course()
    course.see()
    course.see(a=PENDING)
    alone = replace(PENDING, is_restarting=True, num_others_ready=0)
    assert course.see(a=alone) == (Action.UNDO,)
    assert course.phases == ["waiting", "waiting"]
    assert course.see(a=replace(READY, num_others_ready=0)) == ()
    assert course.see(a=READY) == (Action.CHANGE,)


def test_an_engine_that_ends_while_it_drains_starts_with_the_new_draft() -> None:
    course = Course()
    course.see()
    assert course.see(a=replace(PENDING, state="down")) == ()
    assert course.see(a=STARTING) == ()
    assert course.phases == ["starting", "waiting"]


def test_an_engine_that_is_down_is_changed_without_a_drain() -> None:
    """It serves nobody, so no other need be ready."""
    down = EngineView("down", num_others_ready=0)
    course = Course(a=down)
    assert course.see() == (Action.CHANGE,)
    assert course.see(a=replace(down, is_change_pending=True)) == ()
    assert course.see(a=STARTING) == ()
    assert course.phases == ["starting", "waiting"]


def test_an_engine_that_was_starting_with_its_old_draft_is_restarted_when_ready() -> None:
    course = Course(a=EngineView("starting"))
    assert course.see() == (Action.CHANGE,)
    assert course.see(a=EngineView("starting", is_change_pending=True)) == ()
    assert course.see(a=PENDING) == (Action.RESTART,)


@pytest.mark.parametrize("is_seen_starting", [True, False])
def test_a_start_that_fails_stops_the_roll_and_the_old_draft_returns(
    is_seen_starting: bool,
) -> None:
    """Also when the start was too short to be seen. The supervisor itself goes back."""
    course = Course()
    course.see()
    course.see(a=PENDING)
    if is_seen_starting:
        course.see(a=STARTING)
    failed = EngineView("down", num_restarts=1, is_change_pending=True, failure="no memory")
    assert course.see(a=failed) == ()
    assert course.phases == ["restoring", "waiting"]
    assert course.roll.state is RollState.RUNNING
    assert course.roll.failure == "a: it did not start with the new draft: no memory"
    assert course.see(a=EngineView("starting", num_restarts=2, failure="no memory")) == ()
    assert course.see(a=EngineView("ready", num_restarts=2, failure="no memory")) == ()
    assert course.phases == ["restored", "waiting"]
    assert course.roll.state is RollState.STOPPED
    assert course.see() == ()


def test_an_engine_that_starts_with_neither_draft_is_lost() -> None:
    course = Course()
    course.start_a()
    failure = EngineView("down", num_restarts=1, is_change_pending=True, failure="no memory")
    course.see(a=failure)
    for num_restarts in (2, 3):
        course.see(a=EngineView("down", num_restarts=num_restarts, failure="no memory"))
        assert course.phases == ["restoring", "waiting"]
    course.see(a=EngineView("starting", num_restarts=4, failure="no memory"))
    assert course.phases == ["lost", "waiting"]
    assert course.roll.state is RollState.STOPPED


@pytest.mark.parametrize(
    "seen",
    [
        EngineView("down", num_restarts=1),
        EngineView("starting", num_restarts=2),
        EngineView("ready", num_restarts=2),
    ],
)
def test_an_engine_that_ends_soon_after_gets_its_old_draft_back(seen: EngineView) -> None:
    course = Course()
    course.watch_a()
    assert course.see(a=seen) == (Action.UNDO,)
    assert course.phases == ["restoring", "waiting"]
    assert "it ended within 10 s of serving" in course.roll.failure
    again = EngineView("ready", num_restarts=2, is_change_pending=True)
    assert course.see(a=again) == (Action.RESTART,)  # it came up with the new draft once more
    assert course.see(a=replace(again, is_restarting=True)) == ()
    assert course.see(a=EngineView("ready", num_restarts=3)) == ()
    assert course.phases == ["restored", "waiting"]


def test_another_target_after_the_restart_stops_the_roll() -> None:
    """Its files were replaced meanwhile: answers would change with the draft."""
    course = Course()
    course.start_a()
    assert course.see(a=replace(CHANGED, revision="other")) == (Action.UNDO,)
    assert course.phases == ["restoring", "waiting"]
    assert "from revision rev to other" in course.roll.failure


@pytest.mark.parametrize(("before", "after"), [(None, "rev"), ("rev", None), (None, None)])
def test_an_unknown_revision_is_no_failure(before: str | None, after: str | None) -> None:
    course = Course(DraftRoll((Step("a", before), Step("b"))))
    course.start_a()
    course.see(a=replace(CHANGED, revision=after))
    assert course.phases == ["watched", "waiting"]


def test_the_next_engine_waits_until_those_swapped_before_serve() -> None:
    """A third replica is ready all the time."""
    swapped = Step("a", "rev", phase=Phase.SWAPPED)
    course = Course(DraftRoll((swapped, Step("b", "rev"))), a=EngineView("down"))
    assert course.see() == ()
    assert course.roll.steps[1].reason == "a has the new draft and is down"
    assert course.see(a=READY) == (Action.CHANGE,)
