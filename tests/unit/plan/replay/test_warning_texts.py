"""What a recording cannot show is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from paceline.foundation.recording.reading import Recording
from paceline.foundation.recording.records import CostTableRecord, End
from paceline.workbench.plan.replay.values import ConstantConcurrency, RecordedLoad
from paceline.workbench.plan.replay.warning_texts import Outcome, replay_warnings
from unit.recording.lines import BLOCK, END, HEADER, request

FITTING = Outcome(num_arrivals=100, most_requests=4, num_waiting=0)
"""As many requests at a time as in the recorded cell."""


def warnings(**changes: Any) -> list[str]:
    fields: dict[str, Any] = {
        "requests": tuple(request() for _ in range(20)),
        "end": END,
        "load": RecordedLoad(),
        "max_draft_length": 2,
        "outcomes": [FITTING] * 5,
        "has_intervals": True,
    }
    fields |= changes
    recording = Recording(fields.get("header", HEADER), fields["requests"], (BLOCK,), fields["end"])
    return list(
        replay_warnings(
            recording,
            fields["requests"],
            fields["load"],
            fields["max_draft_length"],
            fields["outcomes"],
            has_intervals=fields["has_intervals"],
        )
    )


def test_a_recording_that_has_all_that_is_replayed_gives_no_warning() -> None:
    assert warnings() == []


def test_a_table_of_costs_leaves_no_doubt_within_its_range() -> None:
    table = CostTableRecord(
        sizes=(1, 8), lengths=(0, 3), verify_s=((1, 1), (1, 1)), draft_s=((0, 1), (0, 1))
    )
    header = msgspec.structs.replace(HEADER, cost_table=table)
    loads = [[Outcome(100, most, 0)] * 5 for most in (8, 12)]
    within, beyond = (
        warnings(header=header, max_draft_length=3, outcomes=outcomes) for outcomes in loads
    )
    assert not any("draft length" in text or "extrapolation" in text for text in within)
    assert any("12 in the replay is an extrapolation" in text for text in beyond)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_draft_length": 3}, "only draft length 2 was recorded"),
        ({"max_draft_length": 3}, "no draft token beyond position 2 was tried, and up to 3"),
        (
            {"outcomes": [Outcome(100, 6, 0)] * 5},
            "at most 4 requests ran at a time while recording; 6 in the replay",
        ),
        ({"outcomes": [Outcome(100, 4, 20)] * 3 + [FITTING] * 2}, "in 3 of 5 simulated runs"),
        ({"has_intervals": False}, "there is no interval"),
        ({"end": None}, "was cut off"),
        ({"end": End(at_s=6.0, reason="size")}, "ended because it reached its size"),
        ({"end": End(at_s=6.0, reason="failed")}, "ended because it failed"),
        (
            {"requests": tuple(request(ended_s=None) for _ in range(3))},
            "3 of 3 requests were cut by the start or the end",
        ),
        (
            {"requests": tuple(request(under_way=True) for _ in range(3))},
            "3 of 3 requests were cut by the start or the end",
        ),
        ({"requests": tuple(request(draft_cap=1) for _ in range(3))}, "3 of 3 requests capped"),
    ],
)
def test_what_the_recording_does_not_support_is_named(
    changes: dict[str, Any], message: str
) -> None:
    assert any(message in warning for warning in warnings(**changes))


def test_requests_that_wait_in_a_closed_loop_are_no_overload() -> None:
    """More than the engine's slots were asked for."""
    outcomes = [Outcome(100, 4, 20)] * 5
    assert warnings(load=ConstantConcurrency(24), outcomes=outcomes) == []
