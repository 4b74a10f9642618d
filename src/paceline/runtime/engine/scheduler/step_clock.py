"""Measure how long each step of a scheduler took.

When the engine continued without a pause, a step took the time from the results of the step before
to its own; that includes scheduling, execution, drafting and output handling, under synchronous and
asynchronous scheduling alike. A step whose drafts are made after its results ends with them. After
a pause it took the time since it was scheduled. There may have been a pause wherever no request was
running: the last ones may have been aborted, which ends no step.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

_MAX_IN_FLIGHT = 64
"""Bound on steps in flight: two under asynchronous scheduling, one per pipeline stage."""

Noted = TypeVar("Noted")


@dataclass(frozen=True, slots=True)
class FinishedStep(Generic[Noted]):
    """A step whose results vLLM has processed."""

    noted: Noted
    """What was noted when it was scheduled."""
    duration_s: float
    since_scheduled_s: float
    is_back_to_back: bool
    """The engine continued without a pause before it."""


class StepClock(Generic[Noted]):
    """The clock of one scheduler, used in its thread. A step is known by its scheduler output.

    Calls per step, in order: `begin`, `scheduled`, `finished`. Asynchronous scheduling may schedule
    a step before the previous one has finished.
    """

    def __init__(self) -> None:
        self._in_flight: deque[tuple[Any, float, bool, Noted]] = deque(maxlen=_MAX_IN_FLIGHT)
        self._started_s = 0.0
        self._resumes = False
        self._finished_s = 0.0
        self._had_more_work = False

    def begin(self, scheduler: Any) -> None:
        """vLLM is about to schedule a step."""
        self._started_s = time.monotonic()
        self._resumes = not scheduler.running

    def scheduled(self, output: Any, noted: Noted) -> None:
        """The step begun last is sent to the workers."""
        self._in_flight.append((output, self._started_s, self._resumes, noted))

    def finished(self, output: Any, scheduler: Any) -> FinishedStep[Noted] | None:
        """Return the step of this output, whose results vLLM has processed.

        None for an unknown one. Forgets older ones, which vLLM never finished.
        """
        before_s, had_more_work = self._finished_s, self._had_more_work
        now_s = self._finished_s = time.monotonic()
        self._had_more_work = scheduler.has_requests()
        while self._in_flight:
            scheduled, started_s, resumes, noted = self._in_flight.popleft()
            if scheduled is output:
                follows = had_more_work and not resumes
                since_scheduled_s = max(now_s - started_s, 0.0)
                duration_s = max(now_s - before_s, 0.0) if follows else since_scheduled_s
                return FinishedStep(noted, duration_s, since_scheduled_s, follows)
        return None

    def with_drafts(self, step: FinishedStep[Noted] | None) -> FinishedStep[Noted] | None:
        """The step that finished last, with the time since then, in which its drafts were made.

        None for an unknown one, whose time is not that of the next.
        """
        finished_s, self._finished_s = self._finished_s, time.monotonic()
        more_s = max(self._finished_s - finished_s, 0.0)
        if step is None:
            return None
        return replace(
            step,
            duration_s=step.duration_s + more_s,
            since_scheduled_s=step.since_scheduled_s + more_s,
        )


def count_prompt_tokens(output: Any) -> tuple[int, int]:
    """Return the draft tokens of a step, and its prompt tokens beyond one per request.

    All other tokens beyond one per request count as prompt: vLLM does not distinguish prefill and
    decode either.
    """
    num_drafts = sum(map(len, output.scheduled_spec_decode_tokens.values()))
    num_decoded = len(output.num_scheduled_tokens) + num_drafts
    return num_drafts, max(output.total_num_scheduled_tokens - num_decoded, 0)
