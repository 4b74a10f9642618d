"""When is vLLM's model runner loaded in a CPU worker, so that its methods can be wrapped?

vLLM calls `CpuPlatform.register_triton_kernel_overrides` in every worker when its model runner is
made: the runner's module is loaded there, and nowhere else because of us.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("vllm.paceline.worker_hook")

_HOOK = "register_triton_kernel_overrides"
_CALLS = "__paceline_calls__"


def call_in_workers(call: Callable[[], None]) -> bool:
    """Have `call` made in this process's workers, once per function; True when it is arranged.

    Does nothing on other platforms than CPUs.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return False
    platform: Any = type(current_platform)
    stock = getattr(platform, _HOOK, None)
    if stock is None:
        logger.warning("Paceline: %s has no %s; workers stay as they are", platform.__name__, _HOOK)
        return False
    calls: list[Callable[[], None]] | None = getattr(stock, _CALLS, None)
    if calls is None:
        calls = []
        arranged = calls

        @functools.wraps(stock)
        def hooked() -> None:
            stock()
            for each in arranged:
                try:
                    each()
                except Exception:  # vLLM's worker must start without us
                    logger.exception("Paceline: %s failed; vLLM runs as it is", each.__module__)

        setattr(hooked, _CALLS, calls)
        setattr(platform, _HOOK, staticmethod(hooked))
    if call not in calls:
        calls.append(call)
    return True
