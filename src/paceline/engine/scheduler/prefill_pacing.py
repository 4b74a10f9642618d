"""Limit the prompt tokens of each step, so that prefills do not delay running answers.

The governor's `PrefillPacer` decides how many prompt tokens a step may compute. Before each step
this module turns that into the scheduler's token budget and its longest chunk of one prompt, which
vLLM reads anew for every step. While no request decodes, and after an error, both keep their
configured values.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from paceline.governor.prefill_pacing import PrefillPacer

logger = logging.getLogger("vllm.paceline.prefill_pacing")

_MAX_IN_FLIGHT = 64
"""Bound on steps in flight: there are two under asynchronous scheduling. Beyond, and after as many
steps that this module never saw scheduled, nothing can be learned: pacing ends, as prompts would
get next to nothing until then."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What is known when a step is scheduled."""

    output: Any
    started_s: float
    prefill_tokens: int
    is_decoding: bool
    is_lean: bool
    """It has as few prompt tokens as possible."""
    resumes: bool
    """No request was running before it, so the engine may have been idle."""


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
        self._in_flight: deque[_Step] = deque()
        self._num_unknown = 0
        self._finished_s = 0.0
        self._had_more_work = False
        self._has_prompts = False
        self._has_failed = False
        self._started_s = 0.0
        self._is_decoding = self._is_lean = self._resumes = False

    def before_schedule(self, scheduler: Any) -> None:
        """Set the scheduler's limits for the step it is about to schedule."""
        budget, chunk = self._configured_budget, self._configured_chunk
        if not self._has_failed:
            try:
                self._started_s = time.monotonic()
                num_running, num_waiting = scheduler.get_request_counts()
                self._resumes = num_running == 0
                self._is_decoding = num_running > 0
                self._is_lean = False
                if num_waiting or self._has_prompts:
                    budget, chunk = self._limits(scheduler, num_waiting)
            except Exception as error:  # noqa: BLE001 - serving continues without pacing
                self._fail("before a step", error)
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
        """Note the scheduled step."""
        if self._has_failed or not output.num_scheduled_tokens:
            return
        try:
            # All tokens beyond one per request and its drafts count as prompt.
            num_decoded = len(output.num_scheduled_tokens) + sum(
                map(len, output.scheduled_spec_decode_tokens.values())
            )
            prefill_tokens = max(output.total_num_scheduled_tokens - num_decoded, 0)
            if len(self._in_flight) == _MAX_IN_FLIGHT:
                raise RuntimeError(f"none of {_MAX_IN_FLIGHT} scheduled steps was finished")
            self._in_flight.append(
                _Step(
                    output,
                    self._started_s,
                    prefill_tokens,
                    self._is_decoding,
                    self._is_lean,
                    self._resumes,
                )
            )
        except Exception as error:  # noqa: BLE001 - serving continues without pacing
            self._fail("with a scheduled step", error)

    def after_step(self, scheduler: Any, output: Any) -> None:
        """Learn from the step's duration: since the step before, or since its own start after a
        pause. An unknown step, and older ones that vLLM never finished, teach nothing. In a
        pipeline a request waits for its whole step, beside which others run."""
        if self._has_failed or not output.num_scheduled_tokens:
            return
        try:
            before_s, had_more_work = self._finished_s, self._had_more_work
            self._finished_s, self._had_more_work = time.monotonic(), scheduler.has_requests()
            while self._in_flight:
                step = self._in_flight.popleft()
                if step.output is output:
                    follows = had_more_work and not step.resumes and not self._is_pipeline
                    self._pacer.observe(
                        self._finished_s - (before_s if follows else step.started_s),
                        step.prefill_tokens,
                        is_decoding=step.is_decoding,
                        is_lean=step.is_lean,
                    )
                    self._num_unknown = 0
                    return
            self._num_unknown += 1
            if self._num_unknown == _MAX_IN_FLIGHT:
                raise RuntimeError(f"the last {_MAX_IN_FLIGHT} steps were never scheduled")
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
