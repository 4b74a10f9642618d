"""Limit the prompt tokens of each step, so that prefills do not delay running answers.

The governor's `PrefillPacer` decides how many prompt tokens a step may compute. Before each step
this module turns that into the scheduler's token budget and its longest chunk of one prompt, which
vLLM reads anew for every step. While no request decodes, and after an error, both keep their
configured values.

An objective that vLLM's configuration excludes is refused. A longest pause is left out, with a line
in the log: `paceline serve` has one by default.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.engine.scheduler.step_clock import (
    FinishedStep,
    StepClock,
    count_prompt_tokens,
)
from paceline.runtime.governor.prefill_pacing import PrefillPacer

logger = logging.getLogger("vllm.paceline.prefill_pacing")

_MAX_UNTIMED = 64
"""Scheduled steps in a row of which none was timed: nothing can be learned then, and prompts would
get next to nothing. Two are in flight under asynchronous scheduling."""
_PAUSE_RATIO = 3.0
"""Of the longest step with prompts to its decodes, where these are slow: under a longest pause
prompts still have two thirds of the time. Chosen; `paceline doctor` calls 4 a stall."""


def start_pacing(scheduler: Any, settings: PluginSettings) -> SchedulerPacing | None:
    """Return the pacing of this scheduler; None if no time is set or vLLM does not fit.

    Independent of speculation. ValueError where the configuration excludes an objective. A longest
    pause is also left out where one scheduler sees only a part of what a step waits for.
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


@dataclass(frozen=True, slots=True)
class _Step:
    """What is known when a step is scheduled."""

    prefill_tokens: int
    is_decoding: bool
    is_lean: bool
    """It has as few prompt tokens as possible."""


class SchedulerPacing:
    """Paces the prefills of one scheduler, in the scheduler's thread.

    While no prompt waits or is under way, nothing is limited and requests are not looked at.
    """

    def __init__(self, scheduler: Any, objective_s: float, *, ratio: float = 0.0) -> None:
        self._pacer = PrefillPacer(objective_s, ratio=ratio)
        self._configured_budget: int = scheduler.max_num_scheduled_tokens
        self._configured_chunk: int = scheduler.scheduler_config.long_prefill_token_threshold
        parallel = scheduler.vllm_config.parallel_config
        self._is_pipeline: bool = parallel.pipeline_parallel_size > 1
        self._clock: StepClock[_Step] = StepClock()
        self._finished: FinishedStep[_Step] | None = None  # its drafts may still be made
        self._num_untimed = 0
        self._has_prompts = False
        self._has_failed = False
        self._is_decoding = self._is_lean = False

    def before_schedule(self, scheduler: Any) -> None:
        """Set the scheduler's limits for the step it is about to schedule."""
        budget, chunk = self._configured_budget, self._configured_chunk
        with self._off_after_error("before a step"):
            self._learn()
            self._clock.begin(scheduler)
            num_running, num_waiting = scheduler.get_request_counts()
            self._is_decoding = num_running > 0
            self._is_lean = False
            if not self._has_failed and (num_waiting or self._has_prompts):
                budget, chunk = self._limits(scheduler, num_waiting)
        scheduler.max_num_scheduled_tokens = budget
        scheduler.scheduler_config.long_prefill_token_threshold = chunk

    def _limits(self, scheduler: Any, num_waiting: int) -> tuple[int, int]:
        """Return the tokens of the step, and of one prompt in it (0 is vLLM's "no limit")."""
        num_decoding = draft_tokens = 0
        longest = 1  # what one decoding request computes
        for request in scheduler.running:
            if not request.is_prefill_chunk:  # neither a prompt nor a preempted answer
                num_decoding += 1
                num_drafts = len(request.spec_token_ids)
                draft_tokens += num_drafts
                longest = max(longest, 1 + num_drafts)
        num_prefilling = len(scheduler.running) - num_decoding
        self._has_prompts = num_waiting > 0 or num_prefilling > 0
        self._is_decoding = num_decoding > 0
        if not self._is_decoding:
            return self._configured_budget, self._configured_chunk
        most = self._pacer.max_prefill_tokens()
        self._is_lean = most == 0
        # vLLM applies the chunk limit to decoding requests too: leave room for drafts plus one. It
        # serves requests in their order: prompts ahead of a decode must not take its tokens.
        chunk = most // max(num_prefilling, 1)
        if self._configured_chunk:
            chunk = min(chunk, self._configured_chunk)
        chunk = max(chunk, longest)
        prompts = max(most, num_prefilling * chunk)
        return min(num_decoding + draft_tokens + prompts, self._configured_budget), chunk

    def step_scheduled(self, output: Any) -> None:
        if self._has_failed or not output.num_scheduled_tokens:
            return
        with self._off_after_error("with a scheduled step"):
            if self._num_untimed == _MAX_UNTIMED:
                raise RuntimeError(f"none of the last {_MAX_UNTIMED} steps could be timed")
            self._num_untimed += 1
            _, prefill_tokens = count_prompt_tokens(output)
            self._clock.scheduled(output, _Step(prefill_tokens, self._is_decoding, self._is_lean))

    def after_step(self, scheduler: Any, output: Any) -> None:
        """Note the step's duration, unless the step is unknown."""
        if self._has_failed or not output.num_scheduled_tokens:
            return
        with self._off_after_error("after a step"):
            self._learn()
            self._finished = self._clock.finished(output, scheduler)

    def after_drafts(self) -> None:
        """The drafts of the step that finished last are made: the draft model's share of a prompt
        belongs to the step with that prompt."""
        if self._has_failed:
            return
        with self._off_after_error("after the drafts of a step"):
            self._finished = self._clock.with_drafts(self._finished)
            self._learn()

    def _learn(self) -> None:
        """Learn from the duration of the step that finished last. In a pipeline a request waits for
        its whole step, beside which others run."""
        finished, self._finished = self._finished, None
        if finished is None:
            return
        self._num_untimed = 0
        step = finished.noted
        self._pacer.observe(
            finished.since_scheduled_s if self._is_pipeline else finished.duration_s,
            step.prefill_tokens,
            is_decoding=step.is_decoding,
            is_lean=step.is_lean,
        )

    @contextlib.contextmanager
    def _off_after_error(self, when: str) -> Iterator[None]:
        """End pacing after an error in the block; serving continues without it."""
        try:
            yield
        except Exception as error:
            self._has_failed = True
            logger.exception(
                "Pacing: %s %s: %s. Prefill pacing is off until the engine restarts; vLLM's "
                "configured limits apply.",
                type(error).__name__,
                when,
                error,
            )
