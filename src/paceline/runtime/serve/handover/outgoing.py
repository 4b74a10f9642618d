"""`Outgoing`: what this process offers to a new one, and how it lets go of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from paceline.runtime.engine.process.supervisor import EngineSupervisor, RunningEngine
from paceline.runtime.gateway import GovernorChanges, RunningGateway
from paceline.runtime.serve.handover.fleet_changes import snapshot_changes
from paceline.runtime.serve.handover.messages import VERSION, Changes, Offer, OfferedEngine


class Outgoing:
    """The gateway and the engines of a process that another one may take over from."""

    def __init__(
        self,
        gateway: RunningGateway,
        supervisors: Sequence[EngineSupervisor],
        changes: GovernorChanges,
    ) -> None:
        self._gateway = gateway
        self._supervisors = supervisors
        self._changes = changes
        self.is_taken = False
        """Whether another process owns the engines and serves the ports."""
        self._is_draining = False

    def offer(self) -> tuple[Offer, Sequence[int]]:
        """The offer, and the descriptors of the sockets and of each engine's pipe."""
        engines = self._running()
        offer = Offer(
            version=VERSION,
            pid=os.getpid(),
            engines=tuple(map(_offered, engines)),
            changes=self.changes(),
            num_sockets=len(self._gateway.sockets),
        )
        sockets = [listening.fileno() for listening in self._gateway.sockets]
        return offer, [*sockets, *(engine.guard_pipe for engine in engines)]

    def obstacle_to_offer(self) -> str | None:
        """Why nothing can be offered now, if so."""
        if self._is_draining:
            return "it completes its requests and ends; take over when it has ended"
        states = {
            supervisor.name: supervisor.status.state
            for supervisor in self._supervisors
            if supervisor.running_engine is None
        }
        return find_obstacle_to_offer(
            states, self._gateway.restarting, is_swapping=self._gateway.is_swapping_draft
        )

    def obstacle(self, taken: Mapping[str, int]) -> str | None:
        """Why these engines (guards' process ids by name) cannot be handed over now, if so."""
        running = {engine.name: engine.pid for engine in self._running()}
        return find_obstacle(
            taken, running, self._gateway.restarting, is_swapping=self._gateway.is_swapping_draft
        )

    def changes(self) -> Changes:
        """What operators have changed so far."""
        return Changes(self._changes.snapshot(), snapshot_changes(self._gateway.fleet))

    async def stop_changes(self) -> None:
        """Refuse changes by operators; returns when those under way have ended."""
        await self._gateway.stop_changes()

    def allow_changes(self) -> None:
        """Accept changes by operators again: this process continues."""
        self._gateway.allow_changes()

    def release(self, taken: Collection[str]) -> None:
        """Accept no more connections, and leave these engines to the other process."""
        self.is_taken = True
        if not self._is_draining:
            self._gateway.stop_accepting()
        self.leave(taken)

    def leave(self, engines: Collection[str]) -> None:
        """Neither stop nor restart these engines; another process has copies of their pipes."""
        for supervisor in self._supervisors:
            if supervisor.name in engines:
                supervisor.release()

    def start_draining(self) -> None:
        """Offer nothing from here on: the gateway closes its sockets.

        What was offered before can still be taken.
        """
        self._is_draining = True

    def _running(self) -> list[RunningEngine]:
        engines = [supervisor.running_engine for supervisor in self._supervisors]
        return [engine for engine in engines if engine is not None]


_SWAPPING = "the draft is being swapped, engine by engine; take over when that has ended"


def find_obstacle_to_offer(
    unready: Mapping[str, str], restarting: Collection[str], *, is_swapping: bool = False
) -> str | None:
    """Why nothing can be offered now; None if it can. `unready` has states of engines by name.

    The new process starts what it is not offered, so an engine that this process starts or restarts
    would run twice.
    """
    if is_swapping:
        return _SWAPPING
    for name, state in unready.items():
        if name not in restarting:
            return f"{name} is {state}; take over when it is ready"
    return find_obstacle({}, {}, restarting)


def find_obstacle(
    taken: Mapping[str, int],
    running: Mapping[str, int],
    restarting: Collection[str],
    *,
    is_swapping: bool = False,
) -> str | None:
    """Why engines cannot be handed over now; None if they can. Process ids of guards by name."""
    if is_swapping:
        return _SWAPPING
    for name in restarting:
        return f"{name} is being restarted; take over when it is ready again"
    for name, pid in taken.items():
        if running.get(name) != pid:
            return f"{name} has ended or was restarted meanwhile; take over again"
    return None


def _offered(engine: RunningEngine) -> OfferedEngine:
    command, status = engine.command, engine.status
    control = command.control_socket
    return OfferedEngine(
        name=engine.name,
        served_name=engine.served_name,
        pid=engine.pid,
        arguments=command.arguments,
        socket=str(command.socket),
        control_socket=None if control is None else str(control),
        serves_undrafted=command.serves_undrafted,
        run_folder=str(engine.run_folder),
        log=str(engine.log),
        max_model_len=status.max_model_len,
        revision=status.revision,
        num_restarts=status.num_restarts,
        num_planned_restarts=status.num_planned_restarts,
        swapped_draft=command.swapped_draft,
        version=status.version,
    )
