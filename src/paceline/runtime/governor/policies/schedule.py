"""A policy that reads the draft length from a table by the number of requests.

The table is vLLM's own form (`num_speculative_tokens_per_batch_size`): inclusive ranges `(lowest,
highest, draft_length)`, the first from 1, disjoint. A gap, and every load past the last range,
takes the length of the range before it. The table depends on load only, not on acceptance or cost,
so it is right only for the machine, the models and the text on which it was tuned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from paceline.runtime.governor.policy_definition import Parameter, PolicyDefinition
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample

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
        """Ignore the sample."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        """The table's length for the load, or the longest allowed one where that is shorter."""
        index = max(bisect_right(self._starts, load.num_requests) - 1, 0)
        length = load.longest_allowed(self._lengths[index])
        return DraftPlan(length, f"schedule from {self._starts[index]} requests")


def check_schedule(ranges: Sequence[Sequence[int]]) -> tuple[ScheduleRange, ...]:
    """The ranges in ascending order; ValueError says which entry is wrong."""
    if not ranges:
        raise ValueError("schedule is empty; it needs at least one [lowest, highest, draft_length]")
    checked = sorted(_check_entry(entry) for entry in ranges)
    end_before = 0
    for lowest, highest, length in checked:
        if not 1 <= lowest <= highest:
            raise ValueError(
                f"schedule range {lowest}..{highest} must satisfy 1 <= lowest <= highest"
            )
        if length < 0:
            raise ValueError(f"schedule draft_length is {length}; it must be 0 (off) or more")
        if lowest <= end_before:
            raise ValueError(f"schedule range {lowest}..{highest} overlaps the range before it")
        end_before = highest
    if checked[0][0] != 1:
        raise ValueError(
            f"schedule starts at {checked[0][0]} requests; the first range must start at 1"
        )
    return tuple(checked)


def _check_entry(entry: object) -> ScheduleRange:
    if (
        not isinstance(entry, list | tuple)
        or len(entry) != 3
        or not all(type(number) is int for number in entry)
    ):
        shown = list(entry) if isinstance(entry, tuple) else entry
        raise ValueError(
            f"schedule entry {shown!r} must be three whole numbers: "
            "[lowest number of requests, highest, draft_length]"
        )
    lowest, highest, length = entry
    return lowest, highest, length


POLICY = PolicyDefinition(
    name="schedule",
    summary="The draft length that a table gives for the number of running requests.",
    create=lambda max_draft_length, schedule: SchedulePolicy(schedule),
    parameters=(
        Parameter(
            "schedule",
            list,
            "Ranges [lowest number of requests, highest, draft length], in the format of vLLM's "
            "num_speculative_tokens_per_batch_size; the first range starts at 1, for example "
            "[[1, 8, 6], [9, 256, 2]].",
            is_required=True,
            parse=check_schedule,
        ),
    ),
)
