"""Count what the steps of one engine drafted and took, and changes of its draft length.

For display and for `paceline doctor`: no policy reads it. The table of costs is the one measured at
the start, without the corrections that a policy learns, and all policies are compared with it,
`fixed` and `off` too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.runtime.governor.values import DraftPlan, StepSample

_RECENT_KEEP = 0.98
"""Weight kept per step in recent rates: a memory of about 50 steps, a few seconds of decoding.
Chosen empirically."""


class StepStatistics:
    """The counters of one engine. Not thread-safe: the owner's lock guards it."""

    def __init__(self, max_draft_length: int, cost_table: CostTable | None = None) -> None:
        """Without a `cost_table` no time is compared."""
        self._prices = None if cost_table is None else CostModel(cost_table, max_draft_length)
        self._longest = max_draft_length
        self._num_drafts = self._num_drafted = self._num_accepted = 0
        self._drafted_per_position = [0] * max_draft_length
        self._accepted_per_position = [0] * max_draft_length
        self._accepted_fraction = _RecentRatio()
        self._goodput = _RecentRatio()
        self._slowdown = _RecentRatio()
        self._length_steps = [0] * (max_draft_length + 1)
        self._measured_s = [0.0] * (max_draft_length + 1)
        self._table_s = [0.0] * (max_draft_length + 1)
        self._seconds = {"": 0.0, "off_": 0.0, "exploring_": 0.0, "safe_plan_": 0.0}
        self._plan: DraftPlan | None = None
        self._is_safe_plan = False
        self._settled_length: int | None = None
        self._num_changes = 0
        self._last_change_reason: str | None = None

    def planned(self, plan: DraftPlan, *, is_safe_plan: bool) -> None:
        """Note the plan of the step that was just scheduled.

        A length tried only to explore is not a change.
        """
        self._plan, self._is_safe_plan = plan, is_safe_plan
        if plan.is_exploring or plan.draft_length == self._settled_length:
            return
        if self._settled_length is not None:
            self._num_changes += 1
            self._last_change_reason = plan.reason
        self._settled_length = plan.draft_length

    def count_drafts(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count a step's verified drafts, one entry per request, as vLLM's own metrics do."""
        self._num_drafts += len(drafted)
        self._num_drafted += sum(drafted)
        self._num_accepted += sum(accepted)
        _add(self._drafted_per_position, drafted)
        _add(self._accepted_per_position, accepted)

    def observe(self, sample: StepSample) -> None:
        """Add a finished step; goodput and costs are of clean steps without prompts.

        Under asynchronous scheduling its time is attributed to the plan of the following step,
        which is the latest one known.
        """
        num_accepted = sum(sample.accepted)
        length = min(sample.draft_length, self._longest)
        self._length_steps[length] += 1
        self._accepted_fraction.add(num_accepted, sum(sample.drafted))
        seconds = sample.duration_s
        if seconds is None:
            return
        self._seconds[""] += seconds
        if sample.draft_length == 0:
            self._seconds["off_"] += seconds
        if self._plan is not None and self._plan.is_exploring:
            self._seconds["exploring_"] += seconds
        if self._is_safe_plan:
            self._seconds["safe_plan_"] += seconds
        if not sample.is_clean or sample.prefill_tokens:
            return
        self._goodput.add(sample.num_requests + num_accepted, seconds)
        if self._prices is not None and seconds and sample.num_requests:
            costs = self._prices.load(sample.num_requests, sample.context_tokens)
            table_s = costs.step_s(sample.verified_draft_tokens, length)
            self._measured_s[length] += seconds
            self._table_s[length] += table_s
            self._slowdown.add(seconds, table_s)

    def state(self) -> dict[str, Any]:
        """Return the counters under the keys of the control channel; None for unknown rates."""
        plan = self._plan
        used = [length for length, count in enumerate(self._length_steps) if count]
        compared = [] if self._prices is None else used
        return {
            "drafted_tokens_total": self._num_drafted,
            "accepted_tokens_total": self._num_accepted,
            "num_drafts_total": self._num_drafts,
            "accepted_fraction": self._accepted_fraction.value(least=0.5),
            "drafted_per_position_total": list(self._drafted_per_position),
            "accepted_per_position_total": list(self._accepted_per_position),
            "goodput_tokens_per_s": self._goodput.value(),
            "expected_goodput_tokens_per_s": None if plan is None else plan.expected_tokens_per_s,
            "draft_length_changes_total": self._num_changes,
            "last_change_reason": self._last_change_reason,
            "settled_length": self._settled_length,
            **{f"{use}seconds_total": seconds for use, seconds in self._seconds.items()},
            "safe_plan_reason": plan.reason if plan is not None and self._is_safe_plan else None,
            "length_steps": {str(length): self._length_steps[length] for length in used},
            "measured_step_seconds": {str(length): self._measured_s[length] for length in compared},
            "table_step_seconds": {str(length): self._table_s[length] for length in compared},
            "step_slowdown": self._slowdown.value(),
        }


class _RecentRatio:
    """The ratio of two sums over the recent steps."""

    def __init__(self) -> None:
        self._part = self._whole = 0.0

    def add(self, part: float, whole: float) -> None:
        self._part = _RECENT_KEEP * self._part + part
        self._whole = _RECENT_KEEP * self._whole + whole

    def value(self, *, least: float = 0.0) -> float | None:
        """None where the whole is at most `least`."""
        return self._part / self._whole if self._whole > least else None


def _add(per_position: list[int], lengths: Sequence[int]) -> None:
    for length, count in Counter(lengths).items():
        for position in range(min(length, len(per_position))):
            per_position[position] += count
