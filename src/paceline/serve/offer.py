"""`Outgoing`: what this process offers to a new one, and how it lets go of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.engine.process.supervisor import EngineSupervisor, RunningEngine
from paceline.gateway import GovernorChanges, RunningGateway
from paceline.serve.fleet_changes import snapshot_changes
from paceline.serve.handover import VERSION, Offer, OfferedEngine


class Outgoing:
    """The gateway and the engines of a process that another one may take over from."""

    def __init__(
        self,
        gateway: RunningGateway,
        supervisors: Sequence[EngineSupervisor],
        changes: GovernorChanges,
        run_folders: list[Path],
    ) -> None:
        self._gateway = gateway
        self._supervisors = supervisors
        self._changes = changes
        self._run_folders = run_folders
        self.is_taken = False
        """Whether another process serves the ports."""

    def offer(self) -> tuple[Offer, Sequence[int]]:
        """The offer, and the descriptors of both sockets and of each engine's pipe."""
        running = [supervisor.running_engine for supervisor in self._supervisors]
        engines = [engine for engine in running if engine is not None]
        offer = Offer(
            version=VERSION,
            pid=os.getpid(),
            engines=tuple(map(_offered, engines)),
            run_folders=tuple(map(str, self._run_folders)),
            governor_changes=self._changes.snapshot(),
            fleet_changes=snapshot_changes(self._gateway.fleet),
        )
        sockets = [listening.fileno() for listening in self._gateway.sockets]
        return offer, [*sockets, *(engine.guard_pipe for engine in engines)]

    def release(self, adopted: Mapping[str, int]) -> Sequence[str]:
        """Stop accepting connections, and leave the adopted engines to the other process.

        An engine that was restarted since the offer stays here. The folders of the sockets go to
        the process that has an engine in them.
        """
        self.is_taken = True
        self._gateway.stop_accepting()
        released = []
        for supervisor in self._supervisors:
            engine = supervisor.running_engine
            if engine is not None and adopted.get(engine.name) == engine.pid:
                supervisor.release()
                released.append(engine.name)
        if released:
            self._run_folders.clear()
        return released


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
        log=str(engine.log),
        max_model_len=status.max_model_len,
        revision=status.revision,
        num_restarts=status.num_restarts,
    )
