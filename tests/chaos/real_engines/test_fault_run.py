"""A run that is interrupted ends at once, whatever its streams wait for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import Popen

import pytest
from aiohttp import web

from chaos.engines import Victim
from chaos.gateway_process import GatewayProcess
from chaos.real_engines.engine_faults import EngineFault
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS

SAMPLED = next(kind for kind in FAST_KINDS if kind.name == "chat, sampled")


class SilentGateway:
    """Answers no request, apart from those for its replicas."""

    def __init__(self) -> None:
        self.has_request = asyncio.Event()

    async def replicas(self, request: web.Request) -> web.Response:
        replica = {"name": "engine-0", "state": "ready", "in_flight": 0}
        return web.json_response({"replicas": [replica]})

    async def answer(self, request: web.Request) -> web.Response:
        self.has_request.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError


@pytest.fixture
def ended() -> Popen[str]:
    """A process for `GatewayProcess`; no signal reaches it."""
    with Popen([sys.executable, "-S", "-c", ""], text=True) as process:
        pass
    return process


@pytest.fixture
async def gateway(
    tmp_path: Path, ended: Popen[str]
) -> AsyncIterator[tuple[SilentGateway, GatewayProcess]]:
    silent, app = SilentGateway(), web.Application()
    app.router.add_get("/admin/replicas", silent.replicas)
    app.router.add_post(SAMPLED.path, silent.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield silent, GatewayProcess(ended, url, url, tmp_path / "stderr")
    await runner.cleanup()


async def test_an_interrupted_run_does_not_wait_for_its_streams(
    gateway: tuple[SilentGateway, GatewayProcess],
) -> None:
    silent, process = gateway
    load = EngineLoad("model", [SAMPLED], num_streams=3, max_tokens=8)
    running = asyncio.create_task(
        FaultRun(process, load, ["text"]).run([EngineFault("SIGKILL", Victim.GROUP)])
    )
    await asyncio.wait_for(silent.has_request.wait(), 60)
    running.cancel()
    await asyncio.wait({running}, timeout=60)
    assert running.cancelled()
