"""`DraftSwaps`: swap the draft of this machine's engines while they serve, one after the other.

`draft_roll` decides; this module observes the engines and carries the actions out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from paceline.runtime.gateway.admin.draft_roll import (
    Action,
    DraftRoll,
    EngineView,
    Phase,
    RollState,
    Step,
)
from paceline.runtime.gateway.admin.engine_drafts import CheckedDraft, EngineDrafts
from paceline.runtime.gateway.admin.engine_restarts import EngineRestarts
from paceline.runtime.gateway.fleet import Fleet, FleetConflict

logger = logging.getLogger(__name__)

_CHECK_S = 0.1
"""Time between two looks at the engines. Chosen empirically."""


class SwapConflict(Exception):
    """The swap cannot begin now; the message says why."""


@dataclass(slots=True)
class _Swap:
    """The last swap."""

    checked: CheckedDraft
    roll: DraftRoll
    drafts_before: Mapping[str, str]
    begun_at: str
    ended_at: str | None = None


class DraftSwaps:
    """At most one swap at a time. Use it as a context; at its end a swap under way is given up."""

    def __init__(
        self,
        drafts: EngineDrafts,
        fleet: Fleet,
        restarts: EngineRestarts,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._drafts = drafts
        self._fleet = fleet
        self._restarts = restarts
        self._monotonic = monotonic
        self._swap: _Swap | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> DraftSwaps:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_under_way(self) -> bool:
        """Whether engines are being swapped now."""
        task, swap = self._task, self._swap
        if task is None or swap is None or task.done():
            return False
        return swap.roll.state is RollState.RUNNING  # the task may have its last lines to do

    async def check(self, draft: str) -> CheckedDraft:
        """Check a draft before anything is touched. May raise `SwapConflict` or `DraftUnfit`."""
        self._refuse_without_engines()
        return await asyncio.to_thread(self._drafts.check, draft)

    def begin(self, checked: CheckedDraft, *, allow_outage: bool) -> None:
        """Begin to swap all engines; returns at once. May raise `SwapConflict`."""
        self._refuse_without_engines()
        if self.is_under_way:
            raise SwapConflict("A draft is being swapped already; GET /admin/draft shows it.")
        if self._restarts.names:
            raise SwapConflict(
                f"{', '.join(self._restarts.names)} is being restarted; swap the draft when it is "
                "ready again."
            )
        if not allow_outage:
            self._refuse_outage(self._views())
        # Those that do not serve come first: the others may leave service once these are ready.
        engines = sorted(self._drafts.engines(), key=lambda one: one.state == "ready")
        revisions = {replica.name: replica.revision for replica in self._fleet.replicas()}
        steps = tuple(Step(one.name, revisions.get(one.name)) for one in engines)
        self._swap = _Swap(
            checked,
            DraftRoll(steps, allow_outage),
            {one.name: one.draft for one in engines},
            begun_at=_now(),
        )
        logger.warning(
            "swapping the draft of %s to %s (%s)",
            ", ".join(one.name for one in engines),
            checked.draft,
            checked.why,
        )
        self._task = asyncio.create_task(self._run(self._swap))

    def describe(self) -> dict[str, Any]:
        """The drafts of all engines and the last swap, as JSON values."""
        engines = [
            {
                "name": one.name,
                "state": one.state,
                "draft": one.draft,
                "next_draft": one.next_draft,
            }
            for one in self._drafts.engines()
        ]
        return {
            "replicas": engines,
            "swap": None if self._swap is None else _describe(self._swap, self.is_under_way),
        }

    async def _run(self, swap: _Swap) -> None:
        try:
            self._advance(swap)
            while swap.roll.state is RollState.RUNNING:
                await asyncio.sleep(_CHECK_S)
                self._advance(swap)
        except Exception:  # a bug here must not end silently
            logger.exception("the swap of the draft failed inside the gateway, which continues")
            return
        finally:
            swap.ended_at = _now()
        if swap.roll.state is RollState.COMPLETED:
            logger.warning("the draft was swapped: all engines run with %s", swap.checked.draft)
        else:
            swapped = [one.name for one in swap.roll.steps if one.phase is Phase.SWAPPED]
            logger.error(
                "the swap of the draft to %s stopped: %s. With the new draft: %s",
                swap.checked.draft,
                swap.roll.failure,
                ", ".join(swapped) or "none",
            )

    def _advance(self, swap: _Swap) -> None:
        step = swap.roll.current
        assert step is not None  # the roll runs
        before = {one.name: one.phase for one in swap.roll.steps}
        swap.roll, actions = swap.roll.advance(self._views(), self._monotonic())
        for one in swap.roll.steps:
            if one.phase is not before[one.name]:
                logger.warning(
                    "swap of the draft: %s is %s%s",
                    one.name,
                    one.phase,
                    f": {one.reason}" if one.reason else "",
                )
        for action in actions:
            self._act(action, step.name, swap.checked)

    def _act(self, action: Action, name: str, checked: CheckedDraft) -> None:
        if action is Action.CHANGE:
            checked.use(name)
        elif action is Action.UNDO:
            self._restarts.cancel(name)
            self._drafts.undo(name)
        else:
            try:
                self._restarts.begin(name)
            except FleetConflict as conflict:  # it has just ended; the next look shows it
                logger.info("%s", conflict)

    def _views(self) -> dict[str, EngineView]:
        replicas = {replica.name: replica for replica in self._fleet.replicas()}
        restarting = self._restarts.names
        views = {}
        for engine in self._drafts.engines():
            replica = replicas[engine.name]
            others = [
                other
                for other in replicas.values()
                if other.model == replica.model and other.name != engine.name
            ]
            views[engine.name] = EngineView(
                state=engine.state,
                num_restarts=replica.num_restarts or 0,
                is_change_pending=engine.is_change_pending,
                is_restarting=engine.name in restarting,
                failure=engine.failure,
                revision=replica.revision,
                num_others_ready=sum(other.state == "ready" for other in others),
            )
        return views

    def _refuse_without_engines(self) -> None:
        if not self._drafts.engines():
            raise SwapConflict(
                "This server has no engines of its own. Remote replicas are swapped by those who "
                "run them: drain one, restart it with the new draft, return it to service."
            )

    def _refuse_outage(self, views: Mapping[str, EngineView]) -> None:
        if any(view.state != "ready" for view in views.values()):
            return  # it is swapped first
        for name, view in views.items():
            if not view.num_others_ready:
                raise SwapConflict(
                    f"{name} is the only ready replica of its model: while it restarts, requests "
                    'would wait or get a 503. Give "allow_outage": true (--allow-outage) to do it '
                    "anyway, or add a replica first."
                )


def _describe(swap: _Swap, is_under_way: bool) -> dict[str, Any]:
    state = swap.roll.state
    if state is RollState.RUNNING and not is_under_way:
        state = RollState.STOPPED  # the server is ending
    return {
        "draft": swap.checked.draft,
        "why": swap.checked.why,
        "state": state,
        "reason": swap.roll.failure or None,
        "allow_outage": swap.roll.allow_outage,
        "begun_at": swap.begun_at,
        "ended_at": swap.ended_at,
        "replicas": [
            {
                "name": step.name,
                "phase": step.phase,
                "reason": step.reason or None,
                "draft_before": swap.drafts_before[step.name],
            }
            for step in swap.roll.steps
        ],
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
