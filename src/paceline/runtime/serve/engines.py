"""`Engines`: the supervised engines of this process, as the gateway and a hand-over see them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.engine_process import read_environment, start_environment
from paceline.runtime.engine.process.supervisor import EngineSupervisor, RunningEngine
from paceline.runtime.gateway import GovernorChanges, Replica, send_to_governor
from paceline.runtime.serve.engine_drafts import with_swapped_drafts
from paceline.runtime.serve.engine_plan import EnginePlan
from paceline.runtime.serve.handover.changed_settings import changed_arguments, changed_variables
from paceline.runtime.serve.handover.taking_over import TakeOver
from paceline.runtime.serve.plan import ServePlan

logger = logging.getLogger(__name__)


class Engines:
    """The supervised engines, which are also a `ReplicaSource`.

    At the end of the block it ends those that it has started, and waits for them.
    """

    def __init__(
        self,
        adopted: Sequence[EngineSupervisor],
        new: Sequence[EngineSupervisor],
    ) -> None:
        """`adopted` are engines that run, and that another process still owns."""
        self._adopted = adopted
        self._new = new
        self.supervisors = [*adopted, *new]
        self.tasks: set[asyncio.Task[None]] = set()
        """Of the engines that were started; each ends by itself only when its engine failed."""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        plan: ServePlan,
        changes: GovernorChanges,
        taken: TakeOver | None,
        on_progress: Callable[[str, str], None],
    ) -> AsyncIterator[Engines]:
        """Nothing is started yet. An engine of `taken` is adopted if it serves the same model."""
        offered = {} if taken is None else _adopt(plan, taken)
        planned = with_swapped_drafts(
            plan, {name: engine.command.swapped_draft for name, engine in offered.items()}
        )
        for engine in planned:
            if engine.name in offered:
                _report_changes(offered[engine.name], engine.command, plan.run_folder / engine.name)
        supervisors = [
            _supervisor(plan, engine, changes, offered.get(engine.name), on_progress)
            for engine in planned
        ]
        engines = cls(
            [one for one in supervisors if one.name in offered],
            [one for one in supervisors if one.name not in offered],
        )
        try:
            yield engines
        finally:
            for task in engines.tasks:
                task.cancel()
            # `serve` has raised their first exception already; later ones follow from it.
            await asyncio.gather(*engines.tasks, return_exceptions=True)

    def start_new(self) -> None:
        """Start the engines that were not adopted."""
        self._start(self._new)

    def start_adopted(self) -> None:
        """Begin to watch, restart and end the adopted engines. Only their owner may do so."""
        self._start(self._adopted)

    def restart(self, reason: str, name: str, *, is_planned: bool = False) -> None:
        """Restart a local engine. Remote replicas are left to their own operators."""
        for supervisor in self.supervisors:
            if supervisor.name == name:
                supervisor.restart(reason, is_planned=is_planned)

    def replicas(self) -> Sequence[Replica]:
        return [_replica(supervisor) for supervisor in self.supervisors]

    def raise_failed(self) -> None:
        """Raise what ended an engine, if one has ended."""
        for task in self.tasks:
            if task.done():
                task.result()

    async def restore_new_governors(self, changes: GovernorChanges, timeout_s: float) -> None:
        """Repeat the operators' changes on the engines that were not adopted. Does not raise."""
        for supervisor in self._new:
            await _restore_governor(supervisor.name, supervisor.command, changes, timeout_s)

    def _start(self, supervisors: Sequence[EngineSupervisor]) -> None:
        for supervisor in supervisors:
            self.tasks.add(asyncio.create_task(supervisor.run()))


def _adopt(plan: ServePlan, taken: TakeOver) -> dict[str, RunningEngine]:
    adopted = {}
    for engine in plan.engines:
        offered = taken.adopt(engine.name, plan.served_name or "")
        if offered is None:
            continue
        adopted[engine.name] = offered
    taken.leave_others()
    return adopted


def _report_changes(adopted: RunningEngine, command: EngineCommand, run_folder: Path) -> None:
    """Warn of settings that take effect when the engine is restarted."""
    changed = changed_arguments(
        adopted.command.arguments, adopted.run_folder, command.arguments, run_folder
    )
    started = read_environment(adopted.pid)
    if started is None:
        logger.warning(
            "engine %s: the environment that it was started with cannot be read, so changed "
            "variables are not reported",
            adopted.name,
        )
    else:
        changed += changed_variables(started, start_environment(command))
    if changed:
        logger.warning(
            "engine %s continues as it was started: this server would start it with other values "
            "of %s. They take effect when it is restarted (PATCH /admin/replicas "
            '{"name": "%s", "restart": true})',
            adopted.name,
            ", ".join(changed),
            adopted.name,
        )


def _supervisor(
    plan: ServePlan,
    engine: EnginePlan,
    changes: GovernorChanges,
    adopted: RunningEngine | None,
    on_progress: Callable[[str, str], None],
) -> EngineSupervisor:
    supervisor = EngineSupervisor(
        engine.name,
        engine.command,
        served_name=plan.served_name or "",
        log=plan.log_folder / f"{engine.name}.log",
        run_folder=plan.run_folder / engine.name,
        start_timeout_s=plan.start_timeout_s,
        max_restart_delay_s=plan.max_restart_delay_s,
        on_progress=on_progress,
        before_ready=lambda: _restore_governor(
            supervisor.name, supervisor.command, changes, plan.gateway.control_timeout_s
        ),
        adopted=adopted,
    )
    return supervisor


def _replica(supervisor: EngineSupervisor) -> Replica:
    return Replica(
        name=supervisor.name,
        address=str(supervisor.command.socket),
        model=supervisor.served_name,
        state=supervisor.status.state,
        reason=supervisor.status.reason,
        control_socket=supervisor.command.control_socket,
        max_model_len=supervisor.status.max_model_len,
        # From the start: the gateway reads the engine's own list only with its load.
        other_models=dict.fromkeys(supervisor.command.aliases, supervisor.status.max_model_len),
        num_restarts=supervisor.status.num_restarts,
        num_planned_restarts=supervisor.status.num_planned_restarts,
        revision=supervisor.status.revision,
        version=supervisor.status.version,
        drafts=supervisor.command.control_socket is not None,
        honours_draft_caps=True,  # it runs Paceline's scheduler, or does not draft
        serves_undrafted=supervisor.command.serves_undrafted,
        draft=supervisor.command.draft,
    )


async def _restore_governor(
    name: str, command: EngineCommand, changes: GovernorChanges, timeout_s: float
) -> None:
    """Repeat the operators' changes on the governor of a new engine. Does not raise."""
    if command.control_socket is None:
        return  # no governor, so no change was ever accepted
    for change in changes.commands(name):
        answer = await send_to_governor(name, command.control_socket, change, timeout_s)
        if answer.error is not None:
            logger.error(
                "engine %s was restarted, but its governor settings could not be restored: %s; "
                "set them again with PATCH /admin/governor",
                name,
                answer.error,
            )
