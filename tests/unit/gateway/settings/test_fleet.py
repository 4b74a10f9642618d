"""Validation of `FleetSettings`."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.settings.fleet import FleetSettings
from paceline.runtime.gateway.settings.replica_entry import ReplicaEntry


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"url": "http://a:1"}, {"url": "http://A:1/", "name": "b"}], "url 'http://a:1' twice"),
        ([{"url": "http://a:1", "name": "x"}, {"dns": "b:1", "name": "x"}], "name 'x' twice"),
        ([{"dns": "a:1"}, {"dns": "A:1", "name": "b"}], "dns 'a:1' twice"),
    ],
)
def test_listing_a_replica_twice_is_refused(entries: list[dict[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FleetSettings(entries=tuple(ReplicaEntry(**entry) for entry in entries))


@pytest.mark.parametrize("name", ["poll_period_s", "poll_timeout_s", "load_period_s"])
def test_times_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0"):
        FleetSettings(**{name: 0})
