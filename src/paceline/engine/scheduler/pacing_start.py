"""Decide whether prompts are paced under this configuration of vLLM, and by what.

An objective that the configuration excludes is refused. A longest pause is left out, with a line in
the log: `paceline serve` has one by default.
"""

from __future__ import annotations

import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.scheduler.prefill_pacing import SchedulerPacing
from paceline.engine.scheduler.settings import PluginSettings

logger = logging.getLogger("vllm.paceline.prefill_pacing")

_PAUSE_RATIO = 3.0
"""Of the longest step with prompts to its decodes, where these are slow: under a longest pause
prompts still have two thirds of the time. Chosen; `paceline doctor` calls 4 a stall."""


def start_pacing(scheduler: Any, settings: PluginSettings) -> SchedulerPacing | None:
    """Return the pacing of this scheduler; None if no time is set or vLLM does not fit.

    Independent of speculation. ValueError where the configuration excludes an objective; a longest
    pause is left out there, because `paceline serve` has one by default. It is also left out where
    one scheduler sees only a part of what a step waits for.
    """
    objective_ms, pause_ms = settings.time_per_output_token_ms, settings.max_pause_ms
    if objective_ms is None and pause_ms is None:
        return None
    excluded = _why_prompts_stay_whole(scheduler.scheduler_config) or _why_prompts_wait(scheduler)
    if excluded and objective_ms is not None:
        raise ValueError(
            f"time_per_output_token_ms is {objective_ms}, but {excluded}; remove "
            "time_per_output_token_ms, or change that option"
        )
    if objective_ms is None:
        excluded = excluded or _why_steps_wait_for_others(scheduler.vllm_config.parallel_config)
    if excluded:
        logger.info("Pacing: off, because %s", excluded)
        return None
    misfit = unfit_for("prefill_pacing", check_hooks("prefill_pacing"))
    if misfit:
        logger.error("Pacing: off, because this vLLM does not fit its hooks: %s", misfit)
        return None
    if objective_ms is not None:
        logger.info("Pacing: objective of %g ms between two tokens of a request", objective_ms)
        return SchedulerPacing(scheduler, objective_ms / 1e3)
    assert pause_ms is not None
    logger.info(
        "Pacing: prompts delay running answers by at most %g ms, or %g times a step's decodes",
        pause_ms,
        _PAUSE_RATIO,
    )
    return SchedulerPacing(scheduler, pause_ms / 1e3, ratio=_PAUSE_RATIO)


def _why_prompts_stay_whole(settings: Any) -> str:
    """Empty if a step's limits may be lowered below vLLM's."""
    if not settings.enable_chunked_prefill:
        return "prompts are computed in one piece (--no-enable-chunked-prefill)"
    if settings.disable_chunked_mm_input:
        # A limit below an image's tokens would cut it or never compute it.
        return "images are computed in one piece (disable_chunked_mm_input)"
    if getattr(settings, "long_prefill_token_threshold_adaptive", False):
        return "vLLM raises the pieces of prompts itself (long_prefill_token_threshold_adaptive)"
    return ""


def _why_prompts_wait(scheduler: Any) -> str:
    """Empty if vLLM lets prompts into every step.

    Beside an interval, pacing would misjudge the steps without prompts, and an interval ends while
    prompts wait that one step cannot finish, which is always so where pacing divides them.
    """
    if scheduler.vllm_config.parallel_config.data_parallel_size > 1:
        interval = scheduler.scheduler_config.prefill_schedule_interval
    else:
        interval = getattr(scheduler, "local_prefill_interval", 1)  # since vLLM 0.33
    if interval > 1:
        return f"vLLM computes prompts in one of {interval} steps only (prefill_schedule_interval)"
    return ""


def _why_steps_wait_for_others(settings: Any) -> str:
    """Empty if the time of a step depends on what its scheduler put into it."""
    if settings.pipeline_parallel_size > 1:
        return "steps of several pipeline stages overlap (--pipeline-parallel-size)"
    if settings.data_parallel_size > 1:
        return "steps may wait for those of other ranks (--data-parallel-size)"
    return ""
