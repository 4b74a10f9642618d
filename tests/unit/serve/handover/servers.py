"""Two running `serve` in this process: real sockets, pipes and guards, with `fake_engine.py`.

tests/chaos/upgrades has two processes under load.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.config import load_settings
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.gateway import RunningGateway
from paceline.runtime.serve.engine_plan import EnginePlan, PlannedEngines
from paceline.runtime.serve.handover.taking_over import TakeOver
from paceline.runtime.serve.plan import ServePlan, make_plan
from paceline.runtime.serve.run import serve
from unit.engine.process.test_supervisor import FAKE

WITHIN_S = 240.0
"""For all that a test does with a server, starts of engines included."""


@dataclass
class Server:
    """A running `serve`."""

    gateway: RunningGateway
    task: asyncio.Task[None]

    @property
    def ports(self) -> tuple[int, int]:
        return self.gateway.port, self.gateway.admin_port

    def states(self) -> dict[str, str]:
        return {replica.name: replica.state for replica in self.gateway.fleet.replicas()}


def plan_for(
    folder: Path,
    remote_url: str,
    ports: tuple[int, int] = (0, 0),
    *,
    num_engines: int = 1,
    served_name: str = "fake",
) -> ServePlan:
    """The plan for some engines and the remote replica `far`.

    Each server has its own folder for the engines' sockets. `pids` beside it has the process ids of
    all engines started.
    """
    folder.mkdir(exist_ok=True)
    file = folder.with_suffix(".yaml")
    content = {
        "engine": {"replicas": 0},
        "server": {
            "port": ports[0], "admin_port": ports[1], "drain_timeout_s": 60, "lame_duck_s": 0.3
        },
        "fleet": {"poll_period_s": 0.05, "poll_timeout_s": 60},
        "replicas": [{"url": remote_url, "name": "far"}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(content))
    plan = make_plan(
        load_settings({}, {}, file).settings,
        read_hardware(),
        server_module=None,
        run_folder=folder,
        log_folder=folder.parent,
    )
    engines = tuple(_engine(folder, f"engine-{index}") for index in range(num_engines))
    return replace(plan, engines=engines, served_name=served_name)


def _engine(folder: Path, name: str) -> EnginePlan:
    sockets = [folder / name / "e.sock", folder / name / "c.sock"]
    command = EngineCommand(
        arguments=(
            *(sys.executable, str(FAKE), str(sockets[0]), str(folder.parent / "pids")),
            *("", str(sockets[1])),
        ),
        environment={},
        socket=sockets[0],
        control_socket=sockets[1],
    )
    return EnginePlan(name, command)


def swappable(plan: ServePlan) -> ServePlan:
    """The plan with engines whose draft, `old`, can be swapped.

    `broken` is a draft whose engine ends at its start, `unfit` one that is refused before.
    """

    def plan_with_draft(draft: str) -> PlannedEngines:
        if draft == "unfit":
            raise ModelUnfit("unfit does not exist")
        engines = tuple(_with_draft(one, draft, swapped=draft) for one in plan.engines)
        return PlannedEngines(engines, "fake", (f"draft model {draft}: as configured",))

    engines = tuple(_with_draft(one, "old", swapped=None) for one in plan.engines)
    return replace(plan, engines=engines, plan_with_draft=plan_with_draft)


def _with_draft(engine: EnginePlan, draft: str, swapped: str | None) -> EnginePlan:
    program = list(engine.command.arguments)
    program[4] = "fail" if draft == "broken" else ""
    config = json.dumps({"method": "draft_model", "model": draft})
    arguments = (*program, "--speculative-config", config)
    command = replace(engine.command, arguments=arguments, swapped_draft=swapped)
    return replace(engine, command=command)


@contextlib.asynccontextmanager
async def serving(plan: ServePlan, taken: TakeOver | None = None) -> AsyncIterator[Server]:
    """A server; ended as by a second signal."""
    ready: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(plan, on_progress=lambda *_: None, on_ready=ready.set_result, taken=taken)
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield Server(await ready, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def begin(server: Server) -> TakeOver:
    """What a new process is offered. Raises `TakeOverFailed`."""
    taken = await asyncio.to_thread(TakeOver.begin, server.gateway.host, server.gateway.port)
    assert taken is not None
    return taken
