"""The engines of this process as replicas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.gateway import GovernorChanges
from paceline.runtime.serve.engine_plan import EnginePlan
from paceline.runtime.serve.engines import Engines
from unit.serve.test_remote_replicas import plan_for


async def test_aliases_are_served_before_the_engine_has_listed_them(tmp_path: Path) -> None:
    arguments = ("python", "--served-model-name", "m", "assistant", "gpt-4o", "--uds", "/e.sock")
    command = EngineCommand(arguments, {}, tmp_path / "e.sock", None)
    plan = replace(
        plan_for(tmp_path, [{"url": "http://127.0.0.1:9", "name": "far"}]),
        engines=(EnginePlan("engine-0", command),),
        served_name="m",
    )
    async with Engines.open(plan, GovernorChanges(), None, lambda name, text: None) as engines:
        (replica,) = engines.replicas()
    assert replica.model == "m"
    assert replica.other_models == {"assistant": None, "gpt-4o": None}
