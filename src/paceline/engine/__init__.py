"""Where Paceline meets vLLM. Importing this package does not import vLLM."""

from __future__ import annotations

from typing import Any

__all__ = ["AdaptiveScheduler"]


def __getattr__(name: str) -> Any:
    """`AdaptiveScheduler` on first use: it needs vLLM, which takes seconds to import."""
    if name == "AdaptiveScheduler":
        from paceline.engine.scheduler.adaptive_scheduler import AdaptiveScheduler

        return AdaptiveScheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
