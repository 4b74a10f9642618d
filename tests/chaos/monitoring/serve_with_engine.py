"""`paceline serve` with one local engine that is `governed_engine.py` instead of vLLM.

Everything else is the command's own: the supervisor starts the engine, watches and restarts it, and
the gateway reads its governor over the control socket.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.monitoring import governed_engine
from paceline.cli import main
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.serve import plan as plans


def serve(folder: str) -> None:
    """Run the command of `sys.argv`; the engine's script and process id are in `folder`."""
    make_plan = plans.make_plan

    def make_plan_with_engine(*arguments: Any, run_folder: Path, **options: Any) -> plans.ServePlan:
        plan = make_plan(*arguments, run_folder=run_folder, **options)
        sockets = [run_folder / "engine-0" / name for name in ("e.sock", "c.sock")]
        files = [Path(folder) / name for name in ("script.json", "engine.pid")]
        command = EngineCommand(
            arguments=(sys.executable, governed_engine.__file__, *map(str, sockets + files)),
            environment={},
            socket=sockets[0],
            control_socket=sockets[1],
        )
        engines = (plans.EnginePlan("engine-0", command),)
        return replace(plan, engines=engines, served_name=governed_engine.MODEL)

    plans.make_plan = make_plan_with_engine
    main()
