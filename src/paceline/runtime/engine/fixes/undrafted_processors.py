"""Give the workers of an engine that speculates the processors of `min_p` and `logit_bias`.

vLLM builds neither when it is configured to speculate. Here they are built after its own; without a
request that uses them they return at once. Such requests have no drafts (`undrafted_requests`), so
the plain sampler samples all their tokens and applies both as without speculation.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.runtime.engine.compat.wrapping import wrap_once


def apply() -> bool:
    """Register the wrapper for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap_building, __name__)


def _wrap_building() -> None:
    """Wrap the function in a process that has its module loaded. Idempotent.

    Where a hook does not fit, the front end refuses the requests, and says so.
    """
    if not unfit_for("undrafted_requests", check_hooks("undrafted_requests")):
        from vllm.v1.worker import gpu_model_runner

        wrap_once(gpu_model_runner, "build_logitsprocs", "undrafted_processors", _build)


def _build(
    stock: Any,
    vllm_config: Any,
    device: Any,
    is_pin_memory: bool,
    is_pooling_model: bool,
    custom_logitsprocs: Any = (),
) -> Any:
    from vllm.v1.sample.logits_processor import (
        LogitBiasLogitsProcessor,
        LogitsProcessors,
        MinPLogitsProcessor,
    )

    built = stock(vllm_config, device, is_pin_memory, is_pooling_model, custom_logitsprocs)
    if is_pooling_model or not vllm_config.speculative_config:
        return built
    more = (
        kind(vllm_config, device, is_pin_memory)
        for kind in (LogitBiasLogitsProcessor, MinPLogitsProcessor)
    )
    return LogitsProcessors((*built.all, *more))
