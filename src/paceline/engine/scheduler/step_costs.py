"""Steps by draft length, and what they took beside what the table of costs says.

For display and for `paceline doctor`: no policy reads it. The table is the one measured at the
start, without the corrections that a policy learns, and all policies are compared with it, `fixed`
and `off` too.
"""

from __future__ import annotations

from typing import Any

from paceline.governor.costs.cost_model import CostModel
from paceline.governor.costs.cost_table import CostTable
from paceline.governor.values import StepSample

_RECENT_KEEP = 0.98
"""Weight kept per step in the slowdown: a memory of about 50 steps. Chosen empirically; for display
only."""


class StepCosts:
    """The sums of one engine. One thread observes; any may read the state."""

    def __init__(self, table: CostTable | None, max_draft_length: int) -> None:
        """`table` is None where no cost was measured: then only the steps are counted."""
        self._prices = None if table is None else CostModel(table, max_draft_length)
        self._longest = max_draft_length
        self._steps = [0] * (max_draft_length + 1)
        self._measured_s = [0.0] * (max_draft_length + 1)
        self._table_s = [0.0] * (max_draft_length + 1)
        self._recent_measured_s = self._recent_table_s = 0.0

    def observe(self, sample: StepSample) -> None:
        """Add a finished step; only the time of clean steps without prompts is compared."""
        length = min(sample.draft_length, self._longest)
        self._steps[length] += 1
        measured_s, num_requests = sample.duration_s, sample.num_requests
        if (
            self._prices is None
            or not sample.is_clean
            or not measured_s
            or not num_requests
            or sample.prefill_tokens
        ):
            return
        costs = self._prices.load(num_requests, sample.context_tokens)
        table_s = costs.step_s(sample.verified_draft_tokens, length)
        self._measured_s[length] += measured_s
        self._table_s[length] += table_s
        self._recent_measured_s = _RECENT_KEEP * self._recent_measured_s + measured_s
        self._recent_table_s = _RECENT_KEEP * self._recent_table_s + table_s

    def state(self) -> dict[str, Any]:
        """Return the sums under the keys of the control channel; only lengths that were used."""
        used = [length for length, count in enumerate(self._steps) if count]
        compared = [] if self._prices is None else used
        return {
            "length_steps": {str(length): self._steps[length] for length in used},
            "measured_step_seconds": {str(length): self._measured_s[length] for length in compared},
            "table_step_seconds": {str(length): self._table_s[length] for length in compared},
            "step_slowdown": (
                self._recent_measured_s / self._recent_table_s if self._recent_table_s else None
            ),
        }
