"""Count engine time by what the governor used it for, and log changes of the draft length.

Each log line has the reason of the change. At most one line is written per `_STEPS_BETWEEN_LINES`
steps; it says how many changes it covers. A length tried only to explore is not a change.
"""

from __future__ import annotations

import logging

from paceline.governor.values import DraftPlan, StepSample

logger = logging.getLogger("vllm.paceline.telemetry")

_STEPS_BETWEEN_LINES = 20


class Telemetry:
    """The counters of one engine. Not thread-safe: the owner's lock guards it."""

    def __init__(self) -> None:
        self._length: int | None = None
        self._plan: DraftPlan | None = None
        self._is_safe_plan = False
        self._steps_since_line = _STEPS_BETWEEN_LINES
        self._changes_since_line = 0
        self._changes_total = 0
        self._last_change_reason: str | None = None
        self._seconds_total = 0.0
        self._off_seconds_total = 0.0
        self._exploring_seconds_total = 0.0
        self._safe_plan_seconds_total = 0.0

    def planned(self, plan: DraftPlan, *, is_safe_plan: bool) -> None:
        """Note the plan of the step that was just scheduled."""
        self._plan, self._is_safe_plan = plan, is_safe_plan
        self._steps_since_line += 1
        if plan.is_exploring or plan.draft_length == self._length:
            return
        before, self._length = self._length, plan.draft_length
        if before is None:
            return
        self._changes_total += 1
        self._last_change_reason = plan.reason
        self._changes_since_line += 1
        if self._steps_since_line >= _STEPS_BETWEEN_LINES:
            logger.info(
                "Governor: draft length %d -> %d: %s (changes since the last line: %d)",
                before,
                plan.draft_length,
                plan.reason,
                self._changes_since_line,
            )
            self._steps_since_line = self._changes_since_line = 0

    def observed(self, sample: StepSample) -> None:
        """Add a finished step.

        Under asynchronous scheduling its time is attributed to the plan of the following step,
        which is the latest one known.
        """
        seconds = sample.duration_s
        if seconds is None:
            return
        self._seconds_total += seconds
        if sample.draft_length == 0:
            self._off_seconds_total += seconds
        if self._plan is not None and self._plan.is_exploring:
            self._exploring_seconds_total += seconds
        if self._is_safe_plan:
            self._safe_plan_seconds_total += seconds

    def state(self) -> dict[str, float | int | str | None]:
        """Return the counters under the keys of the control channel."""
        plan = self._plan
        return {
            "expected_goodput_tokens_per_s": None if plan is None else plan.expected_tokens_per_s,
            "draft_length_changes_total": self._changes_total,
            "last_change_reason": self._last_change_reason,
            "settled_length": self._length,
            "seconds_total": self._seconds_total,
            "off_seconds_total": self._off_seconds_total,
            "exploring_seconds_total": self._exploring_seconds_total,
            "safe_plan_seconds_total": self._safe_plan_seconds_total,
            "safe_plan_reason": plan.reason if plan is not None and self._is_safe_plan else None,
        }
