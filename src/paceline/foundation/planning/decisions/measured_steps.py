"""The time of decode steps by the table that an engine of this machine measured at its start.

Prompts are not in a table; they are priced by the roofline, whose hardware is fitted to the table's
steps of one and of the most requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.capacity.step_time import StepTime


@dataclass(frozen=True, slots=True)
class MeasuredStepTime(StepTime):
    """`StepTime`, with measured decode steps."""

    table: CostTable

    def decode_s(self, requests: float, context_tokens: float, draft_length: int = 0) -> float:
        """Between the measured numbers of requests and lengths, and beyond them, linear."""
        return self.table.step_s(
            requests,
            verified_tokens=requests * draft_length,
            draft_length=draft_length,
            context_tokens=round(requests * context_tokens),
        )
