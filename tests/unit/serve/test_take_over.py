"""`paceline serve --take-over` continues with the ports and the engines of a running server.

The engine is `fake_engine.py`; both servers run in this process, with real sockets, pipes and
guards. tests/chaos/test_rolling_upgrade.py has two processes under load.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from paceline.config import load_settings
from paceline.engine.launch.command import EngineCommand
from paceline.engine.launch.hardware import read_hardware
from paceline.gateway import RunningGateway
from paceline.gateway.keys.record import KeysUnusable
from paceline.gateway.settings import KeySettings
from paceline.serve.plan import EnginePlan, ServePlan, make_plan
from paceline.serve.run import serve
from paceline.serve.taking_over import TakeOver
from unit.engine.process.test_supervisor import FAKE, is_alive, pids
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote

WITHIN_S = 30.0


@dataclass
class Server:
    """A running `serve`."""

    gateway: RunningGateway
    task: asyncio.Task[None]
    run_folders: list[Path]


def plan_for(folder: Path, remote: FakeRemote, port: int = 0, admin_port: int = 0) -> ServePlan:
    """The plan for one engine and one remote replica; each server has its own folder of sockets."""
    folder.mkdir(exist_ok=True)
    file = folder / "paceline.yaml"
    content = {
        "engine": {"replicas": 0},
        "server": {
            "port": port, "admin_port": admin_port, "drain_timeout_s": 5, "lame_duck_s": 0.3
        },
        "fleet": {"poll_period_s": 0.05, "poll_timeout_s": 0.5},
        "replicas": [{"url": remote.url, "name": "far"}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(content))
    plan = make_plan(
        load_settings({}, {}, file).settings,
        read_hardware(),
        server_module=None,
        run_folder=folder,
        log_folder=folder,
    )
    sockets = [folder / "e.sock", folder / "c.sock"]
    command = EngineCommand(
        arguments=(
            *(sys.executable, str(FAKE), str(sockets[0]), str(folder.parent / "pids")),
            *("", str(sockets[1])),
        ),
        environment={},
        socket=sockets[0],
        control_socket=sockets[1],
    )
    return replace(plan, engines=(EnginePlan("engine-0", command),), served_name="fake")


@contextlib.asynccontextmanager
async def serving(plan: ServePlan, taken: TakeOver | None = None) -> AsyncIterator[Server]:
    ready: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
    run_folders = [plan.run_folder]
    task = asyncio.create_task(
        serve(
            plan,
            on_progress=lambda *_: None,
            on_ready=ready.set_result,
            taken=taken,
            run_folders=run_folders,
        )
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield Server(await ready, task, run_folders)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def begin(server: Server) -> TakeOver:
    """What a new process is offered."""
    taken = await asyncio.to_thread(TakeOver.begin, server.gateway.host, server.gateway.port)
    assert taken is not None
    return taken


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path, because the paths of Unix sockets are limited."""
    return tmp_path_factory.mktemp("s")


def states(server: Server) -> dict[str, str]:
    return {replica.name: replica.state for replica in server.gateway.fleet.replicas()}


async def test_a_new_server_goes_on_with_engines_governors_and_replicas(folder: Path) -> None:
    """Nothing is started anew, so what the governor has learned stays in the engine."""
    async with FakeRemote() as remote, FakeRemote() as added:
        remote.models = added.models = [{"id": "fake"}]
        async with (
            serving(plan_for(folder / "a", remote)) as old,
            httpx.AsyncClient(base_url=old.gateway.admin_url) as admin,
        ):
            add = {"url": added.url, "name": "added", "key": "s3cret"}
            assert (await admin.post("/admin/replicas", json=add)).status_code == 201
            drain = {"name": "far", "draining": True}
            assert (await admin.patch("/admin/replicas", json=drain)).status_code == 200
            await until(
                lambda: states(old) == {"engine-0": "ready", "far": "draining", "added": "ready"},
                within_s=10,
            )
            fix = {"draft_length": 3}
            changed = await admin.patch("/admin/governor?replica=engine-0", json=fix)
            assert changed.status_code == 200, changed.text
            taken = await begin(old)
            ports = (old.gateway.port, old.gateway.admin_port)
            async with serving(plan_for(folder / "b", remote, *ports), taken) as new:
                await asyncio.wait_for(old.task, 10)
                assert states(new) == {"engine-0": "ready", "far": "draining", "added": "ready"}
                assert (new.gateway.port, new.gateway.admin_port) == ports
                ((engine, _),) = pids(folder)
                assert is_alive(engine)
                shown = (await admin.get("/admin/governor?replica=engine-0")).json()
                assert shown["replicas"]["engine-0"]["draft_length"] == 3
                assert old.run_folders == []  # the engine's sockets are in it
                assert set(new.run_folders) == {folder / "a", folder / "b"}
                third = await begin(new)  # the new one can be replaced, too
                assert [one.name for one in third.offer.engines] == ["engine-0"]
                third.close()

                restart = {"name": "engine-0", "restart": True}
                assert (await admin.patch("/admin/replicas", json=restart)).status_code == 202
                again = await admin.patch("/admin/replicas", json=restart)
                assert (again.status_code, again.json()["error"]["code"]) == (
                    409,
                    "replica_not_restartable",
                )
                await until(lambda: len(pids(folder)) == 2, within_s=15)
                await until(lambda: states(new)["engine-0"] == "ready", within_s=15)
                assert not is_alive(engine)
                shown = (await admin.get("/admin/governor?replica=engine-0")).json()
                assert shown["replicas"]["engine-0"]["draft_length"] == 3
                engine = pids(folder)[-1][0]
            taken.close()
    assert not is_alive(engine)


async def test_a_server_serves_on_if_its_successor_fails_before_it_serves(folder: Path) -> None:
    async with FakeRemote() as remote, serving(plan_for(folder / "a", remote)) as old:
        (await begin(old)).close()
        taken = await begin(old)
        plan = plan_for(folder / "b", remote, old.gateway.port, old.gateway.admin_port)
        unusable = replace(plan.gateway, keys=KeySettings(file=folder / "no-keys"))
        with pytest.raises(KeysUnusable):
            async with serving(replace(plan, gateway=unusable), taken):
                pass
        taken.close()
        async with httpx.AsyncClient(base_url=old.gateway.url) as http:
            ready = await http.get("/ready")
        assert (ready.status_code, "connection" in ready.headers) == (200, False)
        assert not old.task.done()
        ((engine, _),) = pids(folder)
        assert is_alive(engine)
    assert not is_alive(engine)


def test_without_a_running_server_there_is_nothing_to_take_over() -> None:
    assert TakeOver.begin("127.0.0.1", 9) is None


async def test_a_remote_replica_is_not_restarted_here(folder: Path) -> None:
    async with FakeRemote() as remote, serving(plan_for(folder / "a", remote)) as server:
        async with httpx.AsyncClient(base_url=server.gateway.admin_url) as admin:
            answers: list[Any] = [
                await admin.patch("/admin/replicas", json={"name": name, "restart": restart})
                for name, restart in (("far", True), ("nobody", True), ("engine-0", False))
            ]
        assert [answer.status_code for answer in answers] == [409, 404, 400]
        assert "'far' is a remote replica: drain it" in answers[0].text
