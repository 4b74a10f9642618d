"""How long to wait before an engine is started again?

Pure: the supervisor says what happened, this says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 60.0
"""Never gives up on an engine that has served before: its cause may pass (memory, a driver)."""
STABLE_AFTER_S = 60.0
"""A run that was ready for this long counts as a success; the next fault starts from the front."""
LOOPING_FROM = 5
"""Failures in a row from which the operator is told that it will not heal by itself."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures in a row so far."""

    num_failures: int = 0

    def after(self, ready_for_s: float | None) -> Backoff:
        """The state after a run that ended; `ready_for_s` is None when it never became ready."""
        if ready_for_s is not None and ready_for_s >= STABLE_AFTER_S:
            return Backoff(1)
        return Backoff(self.num_failures + 1)

    @property
    def delay_s(self) -> float:
        """0.5, 1, 2, … up to 60 seconds."""
        if self.num_failures == 0:
            return 0.0
        return min(FIRST_DELAY_S * 2.0 ** min(self.num_failures - 1, 16), MAX_DELAY_S)

    @property
    def is_looping(self) -> bool:
        return self.num_failures >= LOOPING_FROM
