"""Run callbacks in each CPU worker once vLLM's model runner module is loaded there.

vLLM calls `CpuPlatform.register_triton_kernel_overrides` in every worker when it creates the model
runner. Wrapping that method lets a callback patch the runner without importing its module in
processes that do not need it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("vllm.paceline.model_runner_loading")

_PLATFORM_METHOD = "register_triton_kernel_overrides"
_CALLBACKS = "__paceline_callbacks__"


def when_model_runner_loads(callback: Callable[[], None], module: str) -> bool:
    """Register `callback` to run in this process's workers; return whether it was registered.

    `module` names it in the log. A callback that is registered twice runs once. Returns False on
    platforms other than CPUs.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return False
    platform: Any = type(current_platform)
    stock = getattr(platform, _PLATFORM_METHOD, None)
    if stock is None:
        logger.warning(
            "Paceline: %s has no method %s; the model runner stays unpatched",
            platform.__name__,
            _PLATFORM_METHOD,
        )
        return False
    callbacks: dict[Callable[[], None], str] | None = getattr(stock, _CALLBACKS, None)
    if callbacks is None:
        callbacks = {}
        registered = callbacks

        @functools.wraps(stock)
        def with_callbacks() -> None:
            stock()
            for each, its_module in registered.items():
                try:
                    each()
                except Exception:  # vLLM's worker must start without Paceline too
                    logger.exception(
                        "Paceline: %s failed to patch the model runner; it runs unpatched",
                        its_module,
                    )

        setattr(with_callbacks, _CALLBACKS, callbacks)
        setattr(platform, _PLATFORM_METHOD, staticmethod(with_callbacks))
    callbacks.setdefault(callback, module)
    return True
