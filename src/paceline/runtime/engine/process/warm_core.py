"""Start vLLM's API server, and meanwhile a process from which its engine core is forked.

    python -m paceline.runtime.engine.process.warm_core MODULE ARGUMENTS…

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
from collections.abc import Mapping
from multiprocessing import context, forkserver
from typing import Any

from paceline.runtime.engine.compat.wrapping import fits
from paceline.runtime.engine.launch.environment import unwrap_engine_core_variables

_IMPORTED = (
    "vllm",  # which sets variables that torch reads
    "paceline.runtime.engine.process.end_with_parent",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "vllm.v1.worker.cpu_worker",
)
"""Before the API server's module, which the engine core imports as the main module."""
_READ_AT_IMPORT = {"TORCHINDUCTOR_CPP_DYNAMIC_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""What vLLM's API server sets for an engine core on a CPU, and torch reads when it is imported."""


class _WarmProcess(context.ForkServerProcess):
    """A process forked from the fork server, with the environment of the one that starts it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._environment: dict[str, str] = {}

    def start(self) -> None:
        self._environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        _set_environment(self._environment)
        super().run()


class WarmContext(context.ForkServerContext):
    """Starts processes as `_WarmProcess`."""

    Process = _WarmProcess


def main() -> None:
    """Run the module that the arguments name, as `python -m` does."""
    _, module, *arguments = sys.argv
    _start_fork_server(module)
    if fits("warm_core", "the fork of the engine core"):
        import vllm.v1.engine.utils as utils

        setattr(utils, "get_mp_context", WarmContext)  # noqa: B010 - it exports no names
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _start_fork_server(module: str) -> None:
    given = dict(os.environ)
    unwrap_engine_core_variables()
    os.environ.update(_READ_AT_IMPORT)
    forkserver.set_forkserver_preload([*_IMPORTED, module])
    forkserver.ensure_running()
    _set_environment(given)


def _set_environment(wanted: Mapping[str, str]) -> None:
    """Change what differs, and nothing else: `setproctitle` finds the memory of the process's title
    by the variables that it began with."""
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


if __name__ == "__main__":
    from paceline.runtime.engine.process import warm_core  # whose classes can be pickled

    warm_core.main()
