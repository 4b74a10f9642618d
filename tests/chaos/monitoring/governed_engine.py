"""An engine process for `paceline serve`: a mock vLLM server and a real draft length controller.

usage: governed_engine.py SOCKET CONTROL_SOCKET SCRIPT PID_FILE

Steps without a model feed the controller. SCRIPT, a JSON file that a test may replace at any time,
says how they go: see `Script`. The policy `threshold` raises an exception in every step.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.runtime.engine.scheduler.control_channel import ControlServer
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.governor.policy import Policy
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from paceline.runtime.policy_registry import create_policy
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings

MODEL = "governed"
_STEP_S = 0.02
_MAX_DRAFT_LENGTH = 4


@dataclass(frozen=True)
class Script:
    """How the steps go."""

    acceptance: float = 0.9
    """Probability that a draft token is accepted if those before it were."""
    num_requests: int = 4
    num_shifts: int = 0
    """Shifts of acceptance that the watch for drift has found."""

    def write(self, file: Path) -> None:
        """Replace the script of a running engine."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.replace(file)


class _FailingPolicy:
    def observe(self, sample: StepSample) -> None:
        """Ignore the sample."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        raise RuntimeError("this policy always fails")


def _make_policy(name: str, **arguments: Any) -> Policy:
    return _FailingPolicy() if name == "threshold" else create_policy(name, **arguments)


class _Governed:
    """What the control channel controls."""

    def __init__(self, script: Path) -> None:
        self._script_file = script
        self._random = random.Random(1)
        self._controller = DraftLengthController(
            PluginSettings(),
            EngineAbilities(_MAX_DRAFT_LENGTH, "draft_model"),
            make_policy=_make_policy,
        )

    @property
    def _script(self) -> Script:
        return Script(**json.loads(self._script_file.read_text()))

    def run_steps(self) -> None:
        while True:
            script = self._script
            num_requests, context_tokens = script.num_requests, 100 * script.num_requests
            load = EngineLoad(num_requests, context_tokens, 0, 0, _MAX_DRAFT_LENGTH)
            length = self._controller.plan(load).draft_length
            drafted = (length,) * num_requests
            accepted = tuple(self._draw(length, script.acceptance) for _ in drafted)
            self._controller.count_drafts(drafted, accepted)
            self._controller.observe(
                StepSample(
                    num_requests=num_requests,
                    requested_draft_length=length,
                    drafted=drafted,
                    accepted=accepted,
                    verified_draft_tokens=sum(drafted),
                    draft_length=length,
                    prefill_tokens=0,
                    context_tokens=context_tokens,
                    duration_s=0.01 + 0.0005 * length,
                    is_clean=True,
                )
            )
            # sleep: a step of the engine takes time; nothing depends on how much
            time.sleep(_STEP_S)

    def _draw(self, length: int, acceptance: float) -> int:
        accepted = 0
        while accepted < length and self._random.random() < acceptance:
            accepted += 1
        return accepted

    def state(self) -> dict[str, Any]:
        num_shifts = self._script.num_shifts
        category = {
            "events_total": num_shifts,
            "lost_tokens_per_s": 12.5 if num_shifts else 0.0,
            "acceptance": 0.5 if num_shifts else 0.9,
            "reference_acceptance": 0.9,
            "evidence_fraction": 0.1,
            "lasting_lost_fraction": 0.4 if num_shifts else 0.0,
            "acceptance_best_level": 0.9 if num_shifts else None,
            "acceptance_last_half_hour": 0.5 if num_shifts else None,
        }
        return {**self._controller.state(), "drift": {"categories": {"greedy": category}}}

    def set(self, command: Mapping[str, Any]) -> None:
        self._controller.set(command)

    def record(self, command: Mapping[str, Any]) -> dict[str, Any]:
        raise ValueError("this engine does not record")


async def _serve(socket: Path) -> None:
    async with MockVllm(MockVllmSettings(model=MODEL, tpot_ms=4), socket_path=socket):
        await asyncio.Event().wait()


def main() -> None:
    socket, control_socket, script, pid_file = map(Path, sys.argv[1:])
    governed = _Governed(script)
    threading.Thread(target=governed.run_steps, daemon=True).start()
    ControlServer(str(control_socket), governed)
    pid_file.write_text(str(os.getpid()))
    asyncio.run(_serve(socket))


if __name__ == "__main__":
    main()
