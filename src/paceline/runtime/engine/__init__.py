"""The part of Paceline that starts vLLM and extends it.

Packages, each of which imports only those below it (`pyproject.toml` enforces this):

- `plugin`: what every vLLM process loads.
- `scheduler`: the scheduler subclass and the code that runs around each of its steps.
- `process`: one supervised vLLM server; `launch` chooses its layout, command line and environment.
- `worker`: wrappers that run inside vLLM's workers.
- `fixes`: corrections of vLLM on CPUs.
- `compat`: what Paceline relies on in vLLM, and the checks of it.

Importing this package does not import vLLM.
"""

from __future__ import annotations

from typing import Any

__all__ = ["AdaptiveScheduler"]


def __getattr__(name: str) -> Any:
    """Import `AdaptiveScheduler` on first use: it needs vLLM, which takes seconds to import."""
    if name == "AdaptiveScheduler":
        from paceline.runtime.engine.scheduler.adaptive_scheduler import AdaptiveScheduler

        return AdaptiveScheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
