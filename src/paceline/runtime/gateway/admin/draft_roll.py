"""`DraftRoll`: decide how a draft is swapped, engine by engine.

A pure decision: an immutable value, and `advance`, which takes what is observed and returns the
next value with the actions to carry out. `draft_swaps` observes and acts.

    waiting ──▶ draining ──▶ starting ──▶ watched ──▶ swapped, then the next engine
       ▲            │            │           │
       └─no other───┘            └─not ready─┴─ended──▶ restoring ──▶ restored | lost
         is ready

One engine at a time is out of service. An engine leaves it only if another replica takes requests
and all engines swapped before serve. The roll stops at the first failure: that engine gets the
draft back that it had, engines swapped before keep the new one, and the others are not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from paceline.runtime.gateway.time_limits import DRAFT_WAIT_S, DRAFT_WATCH_S

_MAX_RESTARTS = 2
"""After more restarts than this since its failure, an engine counts as lost. One of them may be
with the new draft: the engine ended, and was started again before that was noticed."""


class Phase(StrEnum):
    """Where one engine is in the roll."""

    WAITING = "waiting"
    """It has its draft and serves; its turn has not come."""
    DRAINING = "draining"
    """It completes its requests."""
    STARTING = "starting"
    """It starts with the new draft."""
    WATCHED = "watched"
    """It serves with the new draft; it must not end within `DRAFT_WATCH_S`."""
    SWAPPED = "swapped"
    RESTORING = "restoring"
    """It failed with the new draft and gets the one that it had."""
    RESTORED = "restored"
    LOST = "lost"
    """It does not start with the draft that it had either; it is restarted without limit."""


class RollState(StrEnum):
    """Where the whole roll is."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    """It failed, for the reason given. Nothing more changes."""


class Action(StrEnum):
    """What is to be done with the engine whose turn it is."""

    CHANGE = "change"
    """Use the new draft from its next start on."""
    RESTART = "restart"
    """Drain it, restart it, and return it to service."""
    UNDO = "undo"
    """Give up a restart that still drains, and use the draft that it had from its next start on."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """What is observed of one engine."""

    state: Literal["starting", "ready", "down"]
    """By its supervisor, whether or not it is drained."""
    num_restarts: int = 0
    is_change_pending: bool = False
    """Its next start uses another draft than it runs with."""
    is_restarting: bool = False
    """A restart was begun: it drains, or has not ended yet."""
    failure: str | None = None
    """Why it did not start with the new draft; its next start then uses the one that it had."""
    revision: str | None = None
    """Fingerprint of its target; None when unknown."""
    num_others_ready: int = 0
    """Other replicas of the model that take requests."""


@dataclass(frozen=True, slots=True)
class Step:
    """One engine of the roll."""

    name: str
    revision: str | None = None
    """Of its target before the roll; None when unknown."""
    phase: Phase = Phase.WAITING
    reason: str = ""
    """Why it waits, or what failed."""
    since_s: float | None = None
    """Since when it waits for others, or serves with the new draft."""
    num_restarts: int = 0
    """When it began to serve with the new draft, or failed with it."""


_FINAL = (Phase.SWAPPED, Phase.RESTORED, Phase.LOST)
Advance = tuple["DraftRoll", tuple[Action, ...]]


@dataclass(frozen=True, slots=True)
class DraftRoll:
    """A roll over all engines, in order."""

    steps: tuple[Step, ...]
    allow_outage: bool = False
    """Whether an engine may leave service although no other replica takes requests."""
    failure: str = ""
    """Why it stops; empty while it does not."""

    @property
    def state(self) -> RollState:
        step = self.current
        if step is None:
            return RollState.COMPLETED
        if self.failure and step.phase in (Phase.WAITING, *_FINAL):
            return RollState.STOPPED
        return RollState.RUNNING

    @property
    def current(self) -> Step | None:
        """The engine whose turn it is, or at which the roll stopped; None if all are swapped."""
        return next((step for step in self.steps if step.phase is not Phase.SWAPPED), None)

    def advance(self, views: Mapping[str, EngineView], now_s: float) -> Advance:
        """The next value, and what is to be done with the engine `current` of this one.

        `views` has every engine of the roll. A roll that does not run stays as it is.
        """
        step = self.current
        if step is None or self.state is not RollState.RUNNING:
            return self, ()
        view = views[step.name]
        if step.phase is Phase.WAITING:
            return self._wait(step, view, views, now_s)
        if step.phase is Phase.DRAINING:
            return self._drain(step, view, now_s)
        if step.phase is Phase.STARTING:
            return self._start(step, view, now_s)
        if step.phase is Phase.WATCHED:
            return self._watch(step, view, now_s)
        return self._restore(step, view)

    def _wait(
        self, step: Step, view: EngineView, views: Mapping[str, EngineView], now_s: float
    ) -> Advance:
        reason = self._reason_to_wait(view, views)
        if not reason:
            begun = replace(step, phase=Phase.DRAINING, reason="", since_s=None)
            return self._with(begun), (Action.CHANGE,)
        since_s = now_s if step.since_s is None else step.since_s
        waiting = self._with(replace(step, reason=reason, since_s=since_s))
        if now_s - since_s < DRAFT_WAIT_S:
            return waiting, ()
        failure = f"{step.name} has waited {DRAFT_WAIT_S:g} s: {reason}"
        return replace(waiting, failure=failure), ()

    def _reason_to_wait(self, view: EngineView, views: Mapping[str, EngineView]) -> str:
        for done in self.steps:
            if done.phase is Phase.SWAPPED and views[done.name].state != "ready":
                return f"{done.name} has the new draft and is {views[done.name].state}"
        return "no other replica is ready" if self._would_interrupt(view) else ""

    def _would_interrupt(self, view: EngineView) -> bool:
        """Whether no replica is left while this engine restarts. One that is down serves nobody."""
        return view.state == "ready" and not view.num_others_ready and not self.allow_outage

    def _drain(self, step: Step, view: EngineView, now_s: float) -> Advance:
        if view.failure is not None or not view.is_change_pending:
            return self._start(replace(step, phase=Phase.STARTING), view, now_s)
        if view.state != "ready":
            return self, ()  # it has ended, and its next start has the new draft
        if self._would_interrupt(view):
            return self._with(replace(step, phase=Phase.WAITING)), (Action.UNDO,)
        return self, (() if view.is_restarting else (Action.RESTART,))

    def _start(self, step: Step, view: EngineView, now_s: float) -> Advance:
        if view.failure is not None:
            return self._fail(step, view, f"it did not start with the new draft: {view.failure}")
        if view.state != "ready":
            return self._with(step), ()
        if view.revision != step.revision and None not in (view.revision, step.revision):
            reason = (
                f"its target changed with the restart, from revision {step.revision} to "
                f"{view.revision}: the files of the target are not those that it was started with"
            )
            failed, _ = self._fail(step, view, reason)
            return failed, (Action.UNDO,)
        watched = replace(step, phase=Phase.WATCHED, since_s=now_s, num_restarts=view.num_restarts)
        return self._with(watched), ()

    def _watch(self, step: Step, view: EngineView, now_s: float) -> Advance:
        if view.state != "ready" or view.num_restarts != step.num_restarts:
            reason = f"it ended within {DRAFT_WATCH_S:g} s of serving with the new draft"
            failed, _ = self._fail(step, view, reason)
            return failed, (Action.UNDO,)
        assert step.since_s is not None
        if now_s - step.since_s < DRAFT_WATCH_S:
            return self, ()
        return self._with(replace(step, phase=Phase.SWAPPED, since_s=None)), ()

    def _fail(self, step: Step, view: EngineView, reason: str) -> Advance:
        failed = replace(step, phase=Phase.RESTORING, reason=reason, num_restarts=view.num_restarts)
        return replace(self._with(failed), failure=f"{step.name}: {reason}"), ()

    def _restore(self, step: Step, view: EngineView) -> Advance:
        if view.is_change_pending:
            is_idle = view.state == "ready" and not view.is_restarting
            return self, ((Action.RESTART,) if is_idle else ())
        if view.state == "ready":
            return self._with(replace(step, phase=Phase.RESTORED)), ()
        if view.num_restarts - step.num_restarts > _MAX_RESTARTS:
            return self._with(replace(step, phase=Phase.LOST)), ()
        return self, ()

    def _with(self, step: Step) -> DraftRoll:
        """The roll with this step in the place of the one of the same engine."""
        steps = tuple(step if one.name == step.name else one for one in self.steps)
        return replace(self, steps=steps)
