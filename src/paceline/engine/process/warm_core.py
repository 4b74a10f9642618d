"""Start vLLM's API server, and meanwhile a process from which its engine core is forked.

    python -m paceline.engine.process.warm_core MODULE ARGUMENTS…

vLLM starts the engine core as a fresh interpreter once the API server has read its arguments, and
both import the same modules, one after the other: 9 s each on two cores. Here a fork server
(`multiprocessing.forkserver`) imports them at the same time as the API server, and the engine core
is a fork of it. It holds no model and computes nothing, so that a fork is safe; it has the
environment of the engine core, because OpenMP reads that once.

For engines on CPUs: on a GPU the import is a small part of a start.
"""

from __future__ import annotations

import os
import runpy
import sys
from multiprocessing import context, forkserver
from typing import Any

from paceline.engine.launch.environment import unwrap_engine_core_variables

_IMPORTED = ("torch._dynamo", "torch._inductor.compile_fx", "vllm.v1.worker.cpu_worker")
"""Beside the API server's module, which the engine core imports as the main module."""


class _WarmProcess(context.ForkServerProcess):
    """A process forked from the fork server, with the environment of the one that starts it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._environment: dict[str, str] = {}

    def start(self) -> None:
        self._environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class WarmContext(context.ForkServerContext):
    """Starts processes as `_WarmProcess`."""

    Process = _WarmProcess  # type: ignore[assignment]


def main() -> None:
    """Run the module that the arguments name, as `python -m` does."""
    _, module, *arguments = sys.argv
    _start_fork_server(module)
    from vllm.v1.engine import utils

    utils.get_mp_context = WarmContext
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _start_fork_server(module: str) -> None:
    given = dict(os.environ)
    unwrap_engine_core_variables()
    forkserver.set_forkserver_preload([module, *_IMPORTED])
    forkserver.ensure_running()
    os.environ.clear()
    os.environ.update(given)


if __name__ == "__main__":
    from paceline.engine.process import warm_core  # whose classes can be pickled

    warm_core.main()
