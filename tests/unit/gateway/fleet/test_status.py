"""Age of a load reading."""

from __future__ import annotations

from paceline.gateway.fleet.load import ReplicaLoad
from paceline.gateway.fleet.status import LoadReading


def test_a_load_that_is_too_old_is_not_used() -> None:
    reading = LoadReading(ReplicaLoad(1), read_at_s=100.0).failed("no answer")
    assert reading.current(130.0, max_age_s=30.0) == ReplicaLoad(1)
    assert reading.current(130.1, max_age_s=30.0) is None
    assert reading.failure == "no answer"
