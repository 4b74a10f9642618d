"""Run the engines and the gateway together in one process until a signal comes.

The gateway opens first: a port in use is reported at once, and early requests get a 503 with
Retry-After. It also closes first, so that requests in flight still have their engine. After a
signal everything ends with exit code 0; a second signal does not wait for requests in flight.

A process that takes over from a running one begins with that one's engines, and accepts
connections once its replicas are ready. A process that was taken over from ends like after SIGTERM,
but leaves the engines that the other one has adopted.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from paceline.engine.process.supervisor import EngineSupervisor
from paceline.gateway import (
    Fleet,
    GovernorChanges,
    Replica,
    RunningGateway,
    send_to_governor,
    serve_gateway,
)
from paceline.gateway.own_limits import (
    descriptors_needed,
    explain_shortage,
    raise_descriptor_limit,
)
from paceline.gateway.process import rare_garbage_collection
from paceline.serve.fleet_changes import apply_changes
from paceline.serve.handing_over import hand_over
from paceline.serve.offer import Outgoing
from paceline.serve.plan import EnginePlan, ServePlan
from paceline.serve.shutdown_signals import cancelled_by, shutdown_signals
from paceline.serve.taking_over import TakeOver, differing

logger = logging.getLogger(__name__)

_READY_CHECK_S = 0.1
"""Time between two checks for a ready remote replica when there are no local engines. Chosen
empirically."""
_HUNG = "its streams sent no data, although its health check passed"
_MAX_SETTLE_CHECKS = 100
"""A process that takes over waits ten seconds, at most, for replicas that have not answered yet,
once one is ready. Chosen empirically: three failed polls take six seconds."""


class SupervisedReplicas:
    """The supervised engines as a `ReplicaSource`."""

    def __init__(self, supervisors: Sequence[EngineSupervisor]) -> None:
        self._supervisors = supervisors

    def replicas(self) -> Sequence[Replica]:
        return [_replica(supervisor) for supervisor in self._supervisors]


def _replica(supervisor: EngineSupervisor) -> Replica:
    return Replica(
        name=supervisor.name,
        address=str(supervisor.command.socket),
        model=supervisor.served_name,
        state=supervisor.status.state,
        control_socket=supervisor.command.control_socket,
        max_model_len=supervisor.status.max_model_len,
        num_restarts=supervisor.status.num_restarts,
        revision=supervisor.status.revision,
        drafts=supervisor.command.control_socket is not None,
        honours_draft_caps=True,  # it runs Paceline's scheduler, or does not draft
        serves_undrafted=supervisor.command.serves_undrafted,
    )


async def serve(
    plan: ServePlan,
    *,
    on_progress: Callable[[str, str], None],
    on_ready: Callable[[RunningGateway], None],
    taken: TakeOver | None = None,
    run_folders: list[Path] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until another process has taken over.

    `on_progress` gets the name of an engine or replica and its current step. `taken` is the offer
    of the process to take over from. `run_folders` are those that the caller removes at the end:
    folders of engines that are taken over are added, those of engines handed over removed. Raises
    PortTaken, WorkerFailed, KeysUnusable or EngineFailed when something cannot start.
    """
    shortage = explain_shortage(
        raise_descriptor_limit(), descriptors_needed(plan.gateway, len(plan.engines))
    )
    if shortage is not None:
        logger.warning("%s", shortage)
    changes = GovernorChanges()
    if taken is not None:
        changes.restore(taken.offer.governor_changes)
    supervisors = [
        _supervisor(plan, engine, changes, taken, on_progress) for engine in plan.engines
    ]
    adopting = [one for one in supervisors if one.status.state == "ready"]
    folders = [plan.run_folder] if run_folders is None else run_folders
    async with contextlib.AsyncExitStack() as stack:
        signalled = stack.enter_context(shutdown_signals())
        engines = await stack.enter_async_context(_EngineTasks.open())
        gateway: RunningGateway | None = None
        async with cancelled_by(signalled):
            opening = functools.partial(
                serve_gateway,
                plan.gateway,
                SupervisedReplicas(supervisors),
                changes,
                on_hung=functools.partial(_restart, supervisors, _HUNG),
                on_restart=functools.partial(_restart, supervisors, "an operator restarts it"),
            )
            if taken is None:
                gateway = await stack.enter_async_context(opening())
            else:
                for supervisor in supervisors:
                    if supervisor not in adopting:
                        engines.start(supervisor.run())
                settle = functools.partial(_settle, taken, supervisors, engines, on_progress)
                sockets = (taken.data_socket, taken.admin_socket)
                gateway = await stack.enter_async_context(
                    opening(sockets=sockets, before_accepting=settle)
                )
                await taken.confirm()
                folders += map(Path, taken.offer.run_folders)
        if gateway is None:
            on_progress("paceline", "stopping")
            return
        # Adopted engines belong to the old process until it has let go of them.
        for supervisor in supervisors if taken is None else adopting:
            engines.start(supervisor.run())
        outgoing = Outgoing(gateway, supervisors, changes, folders)
        handing_over = asyncio.create_task(
            hand_over(plan.gateway.host, gateway.port, outgoing.offer, outgoing.release)
        )
        ends = {
            asyncio.create_task(signalled.wait()),
            asyncio.create_task(gateway.wait_failed()),
            handing_over,
            *engines.tasks,
        }
        ready = asyncio.create_task(_wait_ready(supervisors, gateway.fleet, on_progress))
        try:
            await asyncio.wait({ready, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                stack.enter_context(rare_garbage_collection())
                on_ready(gateway)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not outgoing.is_taken:
                _raise_first(ends)
            on_progress("paceline", "stopping")
            if outgoing.is_taken or signalled.number is signal.SIGTERM:
                # Not after Ctrl-C, which a person waits for.
                if not outgoing.is_taken:
                    gateway.discourage()
                await asyncio.sleep(plan.gateway.lame_duck_s)
        finally:
            for task in (ready, *ends):
                if task not in engines.tasks:
                    task.cancel()


def _supervisor(
    plan: ServePlan,
    engine: EnginePlan,
    changes: GovernorChanges,
    taken: TakeOver | None,
    on_progress: Callable[[str, str], None],
) -> EngineSupervisor:
    served_name = plan.served_name or ""
    adopted = None if taken is None else taken.adopt(engine.name, served_name)
    if taken is not None and adopted is not None:
        folders = [plan.run_folder, *map(Path, taken.offer.run_folders)]
        if differing(adopted, engine.command, folders):
            logger.warning(
                "engine %s runs on with its earlier arguments; they change when it is restarted "
                '(PATCH /admin/replicas {"name": "%s", "restart": true})',
                engine.name,
                engine.name,
            )
    return EngineSupervisor(
        engine.name,
        engine.command,
        served_name=served_name,
        log=plan.log_folder / f"{engine.name}.log",
        run_folder=plan.run_folder,
        start_timeout_s=plan.start_timeout_s,
        on_progress=on_progress,
        before_ready=functools.partial(
            restore_governor, engine, changes, plan.gateway.control_timeout_s
        ),
        adopted=adopted,
    )


async def _settle(
    taken: TakeOver,
    supervisors: Sequence[EngineSupervisor],
    engines: _EngineTasks,
    on_progress: Callable[[str, str], None],
    fleet: Fleet,
) -> None:
    """Wait until this process can serve what the old one serves. Raises what ends an engine."""
    apply_changes(fleet, taken.offer.fleet_changes)
    ready = asyncio.create_task(_wait_ready(supervisors, fleet, on_progress))
    try:
        await asyncio.wait({ready, *engines.tasks}, return_when=asyncio.FIRST_COMPLETED)
        _raise_first({ready, *engines.tasks})
    finally:
        ready.cancel()
    for _ in range(_MAX_SETTLE_CHECKS):
        if not any(replica.state == "starting" for replica in fleet.replicas()):
            return
        await asyncio.sleep(_READY_CHECK_S)


def _restart(supervisors: Sequence[EngineSupervisor], reason: str, name: str) -> None:
    """Restart a local engine. Remote replicas are left to their own operators."""
    for supervisor in supervisors:
        if supervisor.name == name:
            supervisor.restart(reason)


async def restore_governor(engine: EnginePlan, changes: GovernorChanges, timeout_s: float) -> None:
    """Repeat the operators' changes on the governor of a new engine. Does not raise."""
    socket = engine.command.control_socket
    if socket is None:
        return  # no governor, so no change was ever accepted
    for command in changes.commands(engine.name):
        answer = await send_to_governor(engine.name, socket, command, timeout_s)
        if answer.error is not None:
            logger.error(
                "engine %s was restarted, but its governor settings could not be restored: %s; "
                "set them again with PATCH /admin/governor",
                engine.name,
                answer.error,
            )


async def _wait_ready(
    supervisors: Sequence[EngineSupervisor], fleet: Fleet, on_progress: Callable[[str, str], None]
) -> None:
    """Return once all local engines are ready or, without local engines, one remote replica is.

    If all remote replicas are down, the gateway waits for one to recover; until then clients get
    a 503.
    """
    await asyncio.gather(*(supervisor.wait_ready() for supervisor in supervisors))
    while not supervisors and not any(r.state == "ready" for r in fleet.replicas()):
        for status in fleet.statuses():
            on_progress(status.replica.name, f"{status.replica.state}: {status.reason}")
        for entry in fleet.dns_entries():
            if entry.failure:
                on_progress(entry.name, entry.failure)
        await asyncio.sleep(_READY_CHECK_S)


def _raise_first(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


class _EngineTasks:
    """Owns the engines' tasks: at the end of its block it cancels them and waits for them."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[_EngineTasks]:
        owner = cls()
        try:
            yield owner
        finally:
            for task in owner.tasks:
                task.cancel()
            # `serve` has raised their first exception already; later ones follow from it.
            await asyncio.gather(*owner.tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task
