"""Which draft length for how many requests, when a table made offline decides.

The table is vLLM's own form (`num_speculative_tokens_per_batch_size`): inclusive ranges
`(lowest, highest, draft_length)`, the first from 1, disjoint; a gap and everything past the last
range carry the length before them on. It sees load only: no acceptance, no cost, so it is right
for the machine, the models and the text it was tuned on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from paceline.governor.values import DraftPlan, EngineLoad, StepSample

ScheduleRange = tuple[int, int, int]


class SchedulePolicy:
    """Looks the number of requests up in the table.

    >>> policy = SchedulePolicy([(1, 4, 5), (5, 16, 2), (17, 64, 0)])
    >>> load = EngineLoad(num_requests=8, context_tokens=0, prefill_tokens=0, num_waiting=0,
    ...                   max_draft_length=8)
    >>> policy.plan(load).draft_length
    2
    """

    def __init__(self, ranges: Sequence[ScheduleRange]) -> None:
        ordered = check_schedule(ranges)
        self._starts = [lowest for lowest, _, _ in ordered]
        self._lengths = [length for _, _, length in ordered]

    def observe(self, sample: StepSample) -> None:
        """Nothing to learn."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The table's length for the load, never more than the ceiling in force."""
        index = max(bisect_right(self._starts, load.num_requests) - 1, 0)
        length = min(self._lengths[index], load.max_draft_length)
        return DraftPlan(length, f"schedule from {self._starts[index]} requests")


def check_schedule(ranges: Sequence[ScheduleRange]) -> list[ScheduleRange]:
    """The ranges in order, or ValueError with what is wrong."""
    if not ranges:
        raise ValueError("schedule is empty; it needs at least one [lowest, highest, draft_length]")
    for entry in ranges:
        if len(entry) != 3 or not all(type(number) is int for number in entry):
            raise ValueError(
                f"schedule entry {list(entry)} must be three whole numbers: "
                "[lowest number of requests, highest, draft_length]"
            )
    ordered = sorted(ranges)
    end_before = 0
    for lowest, highest, length in ordered:
        if not 1 <= lowest <= highest:
            raise ValueError(
                f"schedule range {lowest}..{highest} must satisfy 1 <= lowest <= highest"
            )
        if length < 0:
            raise ValueError(f"schedule draft_length is {length}; allowed is 0 (off) or more")
        if lowest <= end_before:
            raise ValueError(f"schedule range {lowest}..{highest} overlaps the range before it")
        end_before = highest
    if ordered[0][0] != 1:
        raise ValueError(
            f"schedule starts at {ordered[0][0]} requests; the first range must start at 1"
        )
    return ordered
