"""Restarts of an engine: changes of the governor survive, and those by an operator have no delay.

The engine is `fake_engine.py` with a real governor; gateway, supervisor and channel are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from paceline.foundation.machine import abstract_sockets
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.gateway import GatewaySettings, PortTaken, RunningGateway
from paceline.runtime.serve.engine_plan import EnginePlan
from paceline.runtime.serve.handover.owner_address import path_of
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.run import serve

FAKE = Path(__file__).parents[1] / "engine" / "process" / "fake_engine.py"


@pytest.fixture
def plan(tmp_path_factory: pytest.TempPathFactory) -> ServePlan:
    folder = tmp_path_factory.mktemp("s")  # short: the length of socket paths is limited
    (folder / "run").mkdir()
    engine_socket, control_socket = folder / "e.sock", folder / "c.sock"
    command = EngineCommand(
        arguments=(
            *(sys.executable, str(FAKE), str(engine_socket), str(folder / "pids")),
            *("", str(control_socket)),
        ),
        environment={},
        socket=engine_socket,
        control_socket=control_socket,
    )
    return ServePlan(
        gateway=GatewaySettings(port=0, admin_port=0),
        engines=(EnginePlan("engine-0", command),),
        served_name="fake",
        start_timeout_s=60,
        max_restart_delay_s=600,
        log_folder=folder / "log",
        run_folder=folder / "run",
        reasons=(),
    )


@contextlib.asynccontextmanager
async def serving(plan: ServePlan) -> AsyncIterator[httpx.AsyncClient]:
    """Yields a client of the admin port once the engine is ready."""
    ready: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        serve(plan, on_progress=lambda *_: None, on_ready=ready.set_result)
    )
    try:
        async with asyncio.timeout(240):
            gateway = await ready
            async with httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin:
                yield admin
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def wait_restarted(admin: httpx.AsyncClient) -> None:
    """Return as soon as the engine takes traffic again after its first restart."""
    while True:
        replica = (await admin.get("/admin/replicas")).json()["replicas"][0]
        if (replica["restarts"], replica["state"]) == (1, "ready"):
            return
        await asyncio.sleep(0.01)  # sleep: the pause between two looks decides nothing


async def test_governor_changes_are_restored_when_the_engine_restarts(plan: ServePlan) -> None:
    """Draft length 6, then ceiling 4, which would refuse length 6: the new engine has both.

    The state is read as soon as the engine takes traffic again.
    """
    async with serving(plan) as admin:
        for change in ({"draft_length": 6}, {"ceiling": 4}):
            answer = await admin.patch("/admin/governor", json=change)
            assert answer.status_code == 200, answer.text
        refused = await admin.patch("/admin/governor", json={"ceiling": 99})
        assert refused.status_code == 400
        pids = plan.engines[0].command.socket.with_name("pids")
        os.kill(int(pids.read_text().split()[0]), signal.SIGKILL)
        await wait_restarted(admin)
        assert (await admin.get("/admin/replicas")).json()["replicas"][0]["planned_restarts"] == 0
        state = (await admin.get("/admin/governor")).json()["replicas"]["engine-0"]
    assert (state["policy"], state["ceiling"]) == ("fixed", 4)


async def test_a_restart_by_an_operator_waits_for_nothing(
    plan: ServePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure the engine would be down for ten minutes."""
    monkeypatch.setattr("paceline.runtime.engine.process.backoff.FIRST_DELAY_S", 600.0)
    async with serving(plan) as admin:
        restart = {"name": "engine-0", "restart": True}
        answer = await admin.patch("/admin/replicas", json=restart)
        assert answer.status_code == 202, answer.text
        await wait_restarted(admin)
        assert (await admin.get("/admin/replicas")).json()["replicas"][0]["planned_restarts"] == 1


@pytest.mark.parametrize("is_own", [True, False])
async def test_only_an_own_process_with_the_address_ends_a_start(
    plan: ServePlan, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user may bind the address first; then the port decides."""
    monkeypatch.setattr(abstract_sockets, "is_own_user", lambda connected: is_own)
    with (
        socket.socket() as reserved,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder,
    ):
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        holder.bind(path_of("127.0.0.1", port))
        holder.listen()
        chosen = replace(plan, gateway=replace(plan.gateway, port=port))
        if is_own:
            with pytest.raises(PortTaken, match="by another process"):
                await serve(chosen, on_progress=lambda *_: None, on_ready=lambda _: None)
            return
        async with serving(chosen) as admin:
            assert (await admin.get("/admin/replicas")).status_code == 200
