"""Age of a load reading."""

from __future__ import annotations

from paceline.runtime.gateway.fleet.load import ReplicaLoad
from paceline.runtime.gateway.fleet.status import LoadReading


def test_a_load_that_is_too_old_is_not_used() -> None:
    reading = LoadReading(ReplicaLoad(1), read_at_s=100.0).failed("no answer")
    assert reading.current(130.0, max_age_s=30.0) == ReplicaLoad(1)
    assert reading.current(130.1, max_age_s=30.0) is None
    assert reading.failure == "no answer"


def test_changes_of_the_activity_are_counted() -> None:
    reading = LoadReading()
    seen = [(1.0, 0.5), (1.0, 0.5), (2.0, 0.5), None, (2.0, 0.5), (2.0, 0.25), (0.0, 0.0)]
    counts = []
    for activity in seen:
        load = ReplicaLoad(1, activity=activity)
        reading = reading.followed_by(LoadReading(load, read_at_s=1.0)).failed("no answer")
        counts.append(reading.load.num_activity_changes if reading.load else None)
    assert counts == [0, 0, 1, None, 0, 1, 2]
