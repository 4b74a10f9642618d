"""Decide how long to wait before an engine is restarted, from its failures in a row.

Pure: the supervisor reports each ended run and waits for `delay_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 60.0
"""The longest delay, unless set otherwise. An engine that has served before is restarted without
limit, because the cause may pass (memory, a driver)."""
STABLE_AFTER_S = 60.0
"""A run that was ready for this long counts as a success; the failure count restarts after it."""
LOOPING_FROM = 5
"""Failures in a row from which the log says that the fault is probably permanent."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The number of failures in a row so far."""

    num_failures: int = 0
    max_delay_s: float = MAX_DELAY_S

    def after(self, ready_for_s: float | None) -> Backoff:
        """Return the state after a run; `ready_for_s` is None if it never became ready."""
        if ready_for_s is not None and ready_for_s >= STABLE_AFTER_S:
            return replace(self, num_failures=1)
        return replace(self, num_failures=self.num_failures + 1)

    def after_planned_restart(self, ready_for_s: float) -> Backoff:
        """Return the state after a run that was ended on request, which is no failure."""
        return replace(self, num_failures=0) if ready_for_s >= STABLE_AFTER_S else self

    @property
    def delay_s(self) -> float:
        """0.5, 1, 2, … up to `max_delay_s`."""
        if self.num_failures == 0:
            return 0.0
        return min(FIRST_DELAY_S * 2.0 ** min(self.num_failures - 1, 16), self.max_delay_s)

    @property
    def is_looping(self) -> bool:
        """Whether the engine keeps failing."""
        return self.num_failures >= LOOPING_FROM
