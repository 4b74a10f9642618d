"""Limit the prompt tokens of each step, so that prefills do not delay running answers.

The governor's `PrefillPacer` decides how many prompt tokens a step may compute. Before each step
this module turns that into the scheduler's token budget and its longest chunk of one prompt, which
vLLM reads anew for every step. While no request decodes, and after an error, both keep their
configured values.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from paceline.engine.scheduler.observer import StepObserver
from paceline.governor.prefill_pacing import PrefillPacer

logger = logging.getLogger("vllm.paceline.prefill_pacing")


class SchedulerPacing:
    """Paces the prefills of one scheduler, in the scheduler's thread."""

    def __init__(self, scheduler: Any, objective_s: float) -> None:
        self._pacer = PrefillPacer(objective_s)
        self._observer = StepObserver(drafter_rests=False)
        self._configured_budget: int = scheduler.max_num_scheduled_tokens
        self._configured_chunk: int = scheduler.scheduler_config.long_prefill_token_threshold
        self._started_s = 0.0
        self._draft_length = 0
        self._has_failed = False

    def before_schedule(self, scheduler: Any) -> None:
        """Set the scheduler's limits for the step it is about to schedule."""
        self._started_s = time.monotonic()
        budget, chunk = self._configured_budget, self._configured_chunk
        if not self._has_failed:
            try:
                budget, chunk = self._limits(scheduler)
            except Exception as error:  # noqa: BLE001 - serving continues without pacing
                self._fail("before a step", error)
        scheduler.max_num_scheduled_tokens = budget
        scheduler.scheduler_config.long_prefill_token_threshold = chunk

    def _limits(self, scheduler: Any) -> tuple[int, int]:
        """Return the tokens of the step, and of one prompt in it (0 is vLLM's "no limit")."""
        num_decoding = draft_tokens = context_tokens = longest = 0
        for request in scheduler.running:
            if request.num_computed_tokens >= request.num_prompt_tokens:
                num_decoding += 1
                draft_tokens += len(request.spec_token_ids)
                longest = max(longest, 1 + len(request.spec_token_ids))
                context_tokens += request.num_computed_tokens
        most = self._pacer.max_prefill_tokens(
            num_decoding, draft_tokens, context_tokens, self._draft_length
        )
        if most is None:
            return self._configured_budget, self._configured_chunk
        budget = min(num_decoding + draft_tokens + most, self._configured_budget)
        chunk = min(most, self._configured_chunk) if self._configured_chunk else most
        # vLLM applies the chunk limit to decoding requests too: leave room for drafts plus one.
        return budget, max(chunk, longest)

    def step_scheduled(self, scheduler: Any, output: Any) -> None:
        """Note the scheduled step; `output` has its draft length."""
        if self._has_failed or not output.num_scheduled_tokens:
            return
        try:
            self._draft_length = output.num_spec_tokens_to_schedule or 0
            load = self._observer.measure_load(
                output, scheduler.requests, num_waiting=0, max_draft_length=self._draft_length
            )
            self._observer.step_scheduled(
                output, load, started_s=self._started_s, draft_length=self._draft_length
            )
        except Exception as error:  # noqa: BLE001 - serving continues without pacing
            self._fail("with a scheduled step", error)

    def after_step(self, scheduler: Any, output: Any) -> None:
        """Learn from the step's duration."""
        if self._has_failed:
            return
        try:
            sample = self._observer.step_finished(
                output,
                scheduler.requests,
                verified=(),
                now_s=time.monotonic(),
                has_more_work=scheduler.has_requests(),
                may_speculate=False,
            )
            if sample is not None:
                self._pacer.observe(sample)
        except Exception as error:  # noqa: BLE001 - serving continues without pacing
            self._fail("after a step", error)

    def _fail(self, when: str, error: Exception) -> None:
        self._has_failed = True
        logger.error(
            "Pacing: %s %s: %s. Prefill pacing is off until the engine restarts; vLLM's configured "
            "limits apply.",
            type(error).__name__,
            when,
            error,
            exc_info=error,
        )
