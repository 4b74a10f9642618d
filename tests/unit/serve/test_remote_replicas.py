"""`paceline serve` with remote replicas, alone and beside local engines."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml

from paceline.runtime.config import load_settings
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.gateway import RunningGateway
from paceline.runtime.serve.engine_plan import EnginePlan
from paceline.runtime.serve.plan import ServePlan, make_plan
from paceline.runtime.serve.run import serve
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote

ENGINE = Path(__file__).parents[1] / "engine" / "process" / "fake_engine.py"
FLEET = {"poll_period_s": 0.05, "poll_timeout_s": 60}
SERVER = {"port": 0, "admin_port": 0, "drain_timeout_s": 0.3, "lame_duck_s": 0}


def plan_for(folder: Path, replicas: list[dict[str, object]]) -> ServePlan:
    """The plan of `paceline serve --replicas 0 --config …`, made without vLLM."""
    file = folder / "paceline.yaml"
    content = {
        "engine": {"replicas": 0}, "server": SERVER, "fleet": FLEET, "replicas": replicas
    }  # fmt: skip
    file.write_text(yaml.safe_dump(content))
    return make_plan(
        load_settings({}, {}, file).settings,
        read_hardware(),
        server_module=None,
        run_folder=folder,
        log_folder=folder,
    )


async def serving(
    plan: ServePlan, on_progress: Callable[[str, str], None] = lambda *_: None
) -> tuple[asyncio.Task[None], asyncio.Future[RunningGateway]]:
    ready: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(plan, on_progress=on_progress, on_ready=ready.set_result))
    return task, ready


async def test_only_remote_replicas_are_served_and_no_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("s3cret\n")
    async with FakeRemote() as remote:
        remote.key = "s3cret"
        remote.health = 503
        plan = plan_for(tmp_path, [{"url": remote.url, "key_file": str(tmp_path / "k")}])
        assert "s3cret" not in repr(plan)
        messages: list[tuple[str, str]] = []
        task, ready = await serving(plan, lambda name, what: messages.append((name, what)))
        try:
            async with asyncio.timeout(60):
                name = f"127.0.0.1:{remote.port}"
                # A busy machine may see it only after it was found down.
                reason = "/health answered 503"
                waiting = {(name, f"{state}: {reason}") for state in ("starting", "down")}
                await until(lambda: bool(waiting.intersection(messages)))
                assert not ready.done()
                remote.health = 200
                gateway = await ready
                (replica,) = gateway.fleet.replicas()
                assert (replica.name, replica.model, replica.key) == (name, "tiny", "s3cret")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await task


async def test_the_garbage_collector_is_tuned_while_the_gateway_serves(tmp_path: Path) -> None:
    before = gc.get_threshold()
    async with FakeRemote() as remote:
        task, ready = await serving(plan_for(tmp_path, [{"url": remote.url}]))
        try:
            async with asyncio.timeout(60):
                await ready
            assert gc.get_freeze_count() > 10_000
            assert gc.get_threshold()[0] > 10 * before[0]
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await task
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


async def test_local_engines_and_remote_replicas_serve_together(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("s")  # short: the length of socket paths is limited
    command = EngineCommand(
        arguments=(sys.executable, str(ENGINE), str(folder / "e.sock"), str(folder / "pids")),
        environment={},
        socket=folder / "e.sock",
        control_socket=None,
    )
    async with FakeRemote() as remote:
        remote.models = [{"id": "fake"}]
        plan = replace(
            plan_for(folder, [{"url": remote.url, "name": "far"}]),
            engines=(EnginePlan("engine-0", command),),
            served_name="fake",
        )
        task, ready = await serving(plan)
        try:
            async with asyncio.timeout(60):
                gateway = await ready
                both = {"engine-0": "ready", "far": "ready"}
                await until(lambda: states(gateway) == both)
                async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
                    (model,) = (await http.get("/v1/models")).json()["data"]
                    assert model["id"] == "fake"
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await task


def states(gateway: RunningGateway) -> dict[str, str]:
    return {replica.name: replica.state for replica in gateway.fleet.replicas()}
