"""What the reader of a prediction must know: where the recording does not support it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.foundation.recording.reading import Recording
from paceline.foundation.recording.records import RequestRecord, StepCell
from paceline.workbench.plan.replay.closed_loop import closed_loop_size
from paceline.workbench.plan.replay.traffic import served_requests
from paceline.workbench.plan.replay.values import Load, RecordedLoad

_MORE_REQUESTS = 1.25
"""Requests at a time, relative to the most recorded, beyond which the step time is extrapolated
by more than chance. Chosen empirically."""
_QUEUED_FRACTION = 0.05
"""Share of the arrivals that wait at the end of a simulated run under overload; fewer arrive
during its last steps. Chosen empirically."""
_CUT_FRACTION = 0.1
_UNCLEAN_FRACTION = 0.1
_CAPPED_FRACTION = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one replicate went."""

    num_arrivals: int
    most_requests: int
    """In one step."""
    num_waiting: int
    """Requests without any output at the end."""


def replay_warnings(
    recording: Recording,
    judged: Sequence[RequestRecord],
    load: Load,
    max_draft_length: int,
    outcomes: Sequence[Outcome],
    *,
    has_intervals: bool,
) -> Iterator[str]:
    """Yield the warnings; `judged` are the requests that the acceptance was estimated from."""
    cells = [cell for block in recording.blocks for cell in block.cells]
    clean = [cell for cell in cells if cell.is_clean]
    costs = recording.header.cost_table
    if costs is None:
        yield from _about_costs(clean, max_draft_length)
    yield from _about_positions(judged, max_draft_length)
    yield from _about_arrivals(recording, load)
    yield from _about_load(clean, load, outcomes, 0 if costs is None else costs.sizes[-1])
    if not has_intervals:
        yield (
            "there is no interval: the recording has clean steps in one block of 5 s only, which "
            "does not show how much the machine's speed varies; record for longer"
        )
    yield from _about_steps(cells)
    yield from _about_requests(recording)
    yield from _about_end(recording)


def _about_costs(clean: Sequence[StepCell], max_draft_length: int) -> Iterator[str]:
    lengths = sorted({cell.draft_length for cell in clean})
    if len(lengths) == 1 and max_draft_length != lengths[0]:
        yield (
            f"only draft length {lengths[0]} was recorded, so the cost of other lengths is "
            "uncertain: record with paceline record start --vary-draft-length"
        )


def _about_positions(judged: Sequence[RequestRecord], max_draft_length: int) -> Iterator[str]:
    deepest = max((len(request.tried) for request in judged), default=0)
    if 0 < deepest < max_draft_length:
        yield (
            f"no draft token beyond position {deepest} was tried, and up to {max_draft_length} are "
            "replayed: deeper ones are assumed to be accepted nearly as often as at position "
            f"{deepest}"
        )


def _about_arrivals(recording: Recording, load: Load) -> Iterator[str]:
    size = closed_loop_size(recording.requests)
    if size is not None and isinstance(load, RecordedLoad):
        yield (
            f"the recorded requests came from a closed loop of {size}, so their arrivals follow "
            "from the speed of the recorded engine: a faster setting gets no more requests here. "
            f"Leave --load out, or give closed:{size}"
        )


def _about_load(
    clean: Sequence[StepCell], load: Load, outcomes: Sequence[Outcome], most_measured: int
) -> Iterator[str]:
    """`most_measured`: requests of the largest step in the table of costs; 0 without one."""
    recorded = max((cell.num_requests for cell in clean), default=0)
    simulated = statistics.median(outcome.most_requests for outcome in outcomes)
    if simulated > _MORE_REQUESTS * max(recorded, most_measured):
        yield (
            f"at most {recorded} requests ran at a time while recording; {simulated:.0f} in the "
            "replay is an extrapolation"
        )
    queued = [
        outcome
        for outcome in outcomes
        if outcome.num_waiting > max(1.0, _QUEUED_FRACTION * outcome.num_arrivals)
    ]
    if isinstance(load, RecordedLoad) and 2 * len(queued) >= len(outcomes):
        yield (
            f"in {len(queued)} of {len(outcomes)} simulated runs a queue remained at the end: the "
            "load may exceed what the replica serves, and TTFT then depends on --seconds"
        )


def _about_steps(cells: Sequence[StepCell]) -> Iterator[str]:
    total_s = sum(cell.seconds * cell.count for cell in cells)
    unclean_s = sum(cell.seconds * cell.count for cell in cells if not cell.is_clean)
    if total_s and unclean_s > _UNCLEAN_FRACTION * total_s:
        yield (
            f"{unclean_s / total_s:.0%} of the steps' time was not clean (after a pause, or with "
            "backfill) and is not modelled"
        )


def _about_requests(recording: Recording) -> Iterator[str]:
    capped = sum(request.draft_cap is not None for request in recording.requests)
    if capped > _CAPPED_FRACTION * len(recording.requests):
        yield (
            f"{capped} of {len(recording.requests)} requests capped their drafts; the replay does "
            "not cap them"
        )
    served = served_requests(recording.requests)
    cut = sum(request.under_way or request.ended_s is None for request in served)
    if cut > _CUT_FRACTION * len(served):
        yield (
            f"{cut} of {len(served)} requests were cut by the start or the end of the recording, "
            "so their lengths are not known, and long requests are too rare in the replay: record "
            "for longer"
        )


def _about_end(recording: Recording) -> Iterator[str]:
    if recording.end is None:
        yield "the recording was cut off: it has no end line"
    elif recording.end.reason in ("size", "failed"):
        cause = "reached its size" if recording.end.reason == "size" else "failed"
        yield (
            f"the recording ended because it {cause}: the requests that ran then are not in it, so "
            "long requests are too rare in the replay"
        )
