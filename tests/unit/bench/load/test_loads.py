"""How a report names each load."""

from __future__ import annotations

import pytest

from paceline.foundation.load.loads import (
    ClosedLoop,
    Load,
    OpenLoop,
    RecordedArrivals,
    describe_load,
)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (ClosedLoop(8), "closed loop, 8 in flight"),
        (OpenLoop(4.0), "open loop, 4 requests/s"),
        (OpenLoop(2, 0.5, 20), "open loop, 2 requests/s rising to 20, burstiness 0.5"),
        (OpenLoop(20, 1.0, 2), "open loop, 20 requests/s falling to 2"),
        (OpenLoop(4, max_in_flight=9), "open loop, 4 requests/s, at most 9 in flight"),
        (RecordedArrivals(), "open loop, at the times of the trace"),
        (RecordedArrivals(9), "open loop, at the times of the trace, at most 9 in flight"),
    ],
)
def test_the_description_names_what_shapes_the_load(load: Load, text: str) -> None:
    assert describe_load(load) == text


def test_a_closed_loop_needs_a_slot() -> None:
    with pytest.raises(ValueError, match="concurrency is 0; it must be at least 1"):
        ClosedLoop(0)
