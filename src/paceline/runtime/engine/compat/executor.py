"""Access from the scheduler to vLLM's workers, through the executor of the engine core."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger("vllm.paceline.executor")


class Executor(Protocol):
    """vLLM's executor, as far as Paceline uses it."""

    def collective_rpc(self, method: Callable[..., Any]) -> list[Any]:
        """Call `method(worker)` in each worker and wait; raises what a worker raised."""
        ...


def patch_workers(executor: Executor | None, patch: Callable[[Any], str]) -> str:
    """Call `patch` in each worker, which returns "" or why it is not ready for what is asked.

    Returns "" or what went wrong, each reason once; never raises.
    """
    if executor is None:
        return "the workers cannot be reached"
    try:
        answers: list[str] = executor.collective_rpc(patch)
    except Exception as error:
        logger.exception("Paceline: %s failed in the workers", patch.__module__)
        return str(error)
    return "; ".join(dict.fromkeys(filter(None, answers)))


def find_executor() -> Executor | None:
    """Return the executor of the engine core that is creating its scheduler; None without one.

    vLLM does not hand the executor to the scheduler and offers no other way to a worker. The engine
    core is therefore searched for among the callers of this function; the hook
    `engine_core_executor` records what this relies on.
    """
    frame = sys._getframe(1)
    while frame is not None:
        executor = getattr(frame.f_locals.get("self"), "model_executor", None)
        if executor is not None:
            found: Executor = executor
            return found
        frame = frame.f_back  # type: ignore[assignment]
    return None
