"""`SupervisedDrafts`: the drafts of the supervised engines, for the gateway to show and to swap."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.supervisor import EngineSupervisor
from paceline.runtime.gateway import CheckedDraft, DraftUnfit, EngineDraft
from paceline.runtime.serve.engine_plan import EnginePlan
from paceline.runtime.serve.plan import ServePlan

logger = logging.getLogger(__name__)


class SupervisedDrafts:
    """The `EngineDrafts` of the gateway."""

    def __init__(self, plan: ServePlan, supervisors: Sequence[EngineSupervisor]) -> None:
        self._plan = plan
        self._supervisors = supervisors

    def engines(self) -> list[EngineDraft]:
        """See `EngineDrafts`."""
        return [
            EngineDraft(
                name=one.name,
                state=one.status.state,
                draft=one.command.draft,
                next_draft=one.next_command.draft,
                is_change_pending=one.is_change_pending,
                failure=one.change_failure,
            )
            for one in self._supervisors
        ]

    def check(self, draft: str) -> CheckedDraft:
        """See `EngineDrafts`. The checks are those of `paceline serve --draft`."""
        try:
            planned = self._plan.plan_with_draft(draft)
        except (ModelUnfit, OSError, ValueError) as error:
            raise DraftUnfit(str(error)) from None
        commands = {engine.name: engine.command for engine in planned.engines}
        return _PlannedDraft(
            draft=planned.engines[0].command.draft,
            why=planned.reasons[0],
            commands=commands,
            supervisors={one.name: one for one in self._supervisors},
        )

    def undo(self, engine: str) -> None:
        """See `EngineDrafts`."""
        for one in self._supervisors:
            if one.name == engine:
                one.undo_change()


@dataclass(frozen=True, slots=True)
class _PlannedDraft:
    """A `CheckedDraft`: the commands of all engines with it."""

    draft: str
    why: str
    commands: Mapping[str, EngineCommand]
    supervisors: Mapping[str, EngineSupervisor]

    def use(self, engine: str) -> None:
        self.supervisors[engine].change_command(self.commands[engine])


def with_swapped_drafts(
    plan: ServePlan, swapped: Mapping[str, str | None]
) -> tuple[EnginePlan, ...]:
    """The engines of the plan, with the drafts that operators of an earlier process swapped in.

    `swapped` has a draft by engine; None for that of the settings, which is also used where a
    swapped one can no longer be served.
    """
    planned = []
    for engine in plan.engines:
        draft = swapped.get(engine.name)
        if draft is not None:
            try:
                with_draft = {one.name: one for one in plan.plan_with_draft(draft).engines}
                engine = with_draft[engine.name]
            except (ModelUnfit, OSError, ValueError) as error:
                logger.error(
                    "engine %s runs with the draft %s, which was swapped in. When it is restarted, "
                    "it gets %s instead: %s",
                    engine.name,
                    draft,
                    engine.command.draft,
                    error,
                )
        planned.append(engine)
    return tuple(planned)
