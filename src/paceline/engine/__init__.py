"""The name that `--scheduler-cls paceline.engine.AdaptiveScheduler` gives to vLLM."""

from __future__ import annotations

from typing import Any

__all__ = ["AdaptiveScheduler"]


def __getattr__(name: str) -> Any:
    """Import `AdaptiveScheduler` on first use: it needs vLLM, which takes seconds to import."""
    if name == "AdaptiveScheduler":
        from paceline.runtime.engine import AdaptiveScheduler

        return AdaptiveScheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
