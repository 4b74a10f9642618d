"""Under load, the draft of three engines is swapped one by one: no client notices.

The engines are mock servers below a real `serve`, each with its guard: they are drained, ended and
started as engines of vLLM are. `tests/engine/serving/test_draft_swap.py` has real ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from polling import until
from unit.engine.process.reaping import children_reaped

from chaos.fleet import MAX_MODEL_LEN, MODEL
from chaos.upgrades.draft_swap import drafts, swap_draft
from chaos.upgrades.rolling import Load
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.gateway import GatewaySettings, RunningGateway
from paceline.runtime.gateway.admin import draft_roll
from paceline.runtime.serve.engine_plan import EnginePlan, PlannedEngines
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.run import serve

__all__ = ["children_reaped"]

NUM_CLIENTS = 12
NUM_ENGINES = 3
DRAFTS = {"old": [0.5, 0.3], "new": [0.8, 0.7], "broken": [2.0, 2.0]}
"""Acceptance by position. The mock server refuses to start with `broken`."""


def command(folder: Path, name: str, draft: str) -> EngineCommand:
    socket = folder / "run" / name / "e.sock"
    speculation = {
        "method": draft,
        "num_speculative_tokens": 2,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": DRAFTS[draft],
    }
    return EngineCommand(
        arguments=(
            *(sys.executable, "-m", "paceline.testing.mock_vllm", "--socket", str(socket)),
            *("--model", MODEL, "--max-model-len", str(MAX_MODEL_LEN), "--tpot-ms", "15"),
            *("--speculative-config", json.dumps(speculation)),
        ),
        environment={},
        socket=socket,
        control_socket=None,
    )


def plan_for(folder: Path, drain_timeout_s: float) -> ServePlan:
    def plan(draft: str) -> PlannedEngines:
        names = [f"engine-{index}" for index in range(NUM_ENGINES)]
        engines = [EnginePlan(name, command(folder, name, draft)) for name in names]
        return PlannedEngines(tuple(engines), MODEL, ("mock",))

    (folder / "run").mkdir()
    return ServePlan(
        gateway=GatewaySettings(port=0, admin_port=0, drain_timeout_s=drain_timeout_s),
        engines=plan("old").engines,
        served_name=MODEL,
        start_timeout_s=20,
        max_restart_delay_s=1.0,
        log_folder=folder / "log",
        run_folder=folder / "run",
        reasons=(),
        plan_with_draft=plan,
    )


@contextlib.asynccontextmanager
async def serving(plan: ServePlan) -> AsyncIterator[RunningGateway]:
    ready: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(plan, on_progress=lambda *_: None, on_ready=ready.set_result))
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        yield await ready
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "drain_timeout_s",
    [
        pytest.param(20.0, id="streams complete on their engine"),
        pytest.param(0.2, id="streams continue on another engine"),
    ],
)
async def test_no_client_notices_a_swap(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    drain_timeout_s: float,
) -> None:
    """Every answer is complete, token by token, also while a swap fails and is undone."""
    monkeypatch.setattr(draft_roll, "DRAFT_WATCH_S", 0.5)
    folder = tmp_path_factory.mktemp("s")  # short: the length of socket paths is limited
    async with serving(plan_for(folder, drain_timeout_s)) as gateway:
        load = Load(gateway.url, NUM_CLIENTS)
        running = asyncio.create_task(load.run())
        await until(lambda: load.transcripts)
        ended = []
        for draft in ("new", "broken"):
            swap = await asyncio.to_thread(swap_draft, gateway.admin_url, draft)
            ended.append((swap["state"], [one["phase"] for one in swap["replicas"]]))
        load.stop()
        async with asyncio.timeout(60):
            await running
        assert await asyncio.to_thread(drafts, gateway.admin_url) == ["new"] * NUM_ENGINES
    assert ended == [
        ("completed", ["swapped", "swapped", "swapped"]),
        ("stopped", ["restored", "waiting", "waiting"]),
    ]
    assert len(load.transcripts) > 2 * NUM_CLIENTS
    errors = [
        error
        for request, transcript in zip(load.requests, load.transcripts, strict=True)
        for error in request.errors_in(transcript)
    ]
    assert errors == []
