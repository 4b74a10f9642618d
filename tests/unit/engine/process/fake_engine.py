"""A fake engine process: the routes of vLLM's server that the supervisor uses, and a child process.

usage: fake_engine.py SOCKET PIDS [MODE [CONTROL_SOCKET]]

Writes its own process id and its child's to PIDS. MODE: `fail` prints an error and ends with 1;
`ignore-term` ignores SIGTERM; `daemon` starts its child in another session. At CONTROL_SOCKET it
serves the control channel of a real controller without an engine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from aiohttp import web

from paceline.runtime.engine.scheduler.control_channel import ControlServer
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings


async def health(request: web.Request) -> web.Response:
    return web.Response()


async def models(request: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": "fake", "max_model_len": 77}]})


async def version(request: web.Request) -> web.Response:
    return web.json_response({"version": "0.32.0"})


async def completions(request: web.Request) -> web.Response:
    await request.json()
    return web.json_response({"choices": [{"text": "x"}]})


def main() -> None:
    socket, pids = sys.argv[1:3]
    mode = sys.argv[3] if len(sys.argv) > 3 else ""
    if mode == "fail":
        print("(EngineCore pid=7) ERROR 11-21 02:48:05 [core.py:72] ValueError: no memory for it")
        sys.exit(1)
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=mode == "daemon"
    )
    with Path(pids).open("a") as file:
        file.write(f"{os.getpid()} {child.pid}\n")
    if len(sys.argv) > 4:
        ControlServer(
            sys.argv[4], DraftLengthController(PluginSettings(), EngineAbilities(8, "ngram"))
        )
    print("(EngineCore pid=7) INFO 11-21 02:48:05 [x.py:68] Starting to load model fake...")
    print("(EngineCore pid=7) INFO 11-21 02:48:05 [x.py:90] Costs: measured 9 kinds", flush=True)
    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/version", version)
    app.router.add_post("/v1/completions", completions)
    if mode == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    web.run_app(app, path=socket, handle_signals=mode != "ignore-term", print=None)


if __name__ == "__main__":
    main()
