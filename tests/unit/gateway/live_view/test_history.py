"""The history is bounded, and its documents fit together."""

from __future__ import annotations

import json

from paceline.runtime.gateway.live_view.documents import render_history, render_update
from paceline.runtime.gateway.live_view.history import (
    MAX_EVENTS,
    MAX_POINTS,
    REPLICA_SERIES,
    TRAFFIC_SERIES,
    History,
    rounded,
)
from paceline.runtime.gateway.live_view.values import Event
from unit.gateway.live_view.views import governed, snapshot, view


def test_updates_are_numbered_from_one_without_a_gap() -> None:
    history = History()
    assert [history.add(snapshot(), []).number for _ in range(3)] == [1, 2, 3]


def test_the_oldest_points_and_events_are_dropped() -> None:
    history = History()
    for second in range(MAX_POINTS + 7):
        event = Event(float(second), "state", "a", "x")
        history.add(snapshot(at_s=float(second)), [event])
    document = render_history(history)
    assert document["points"]["at_s"] == [float(s) for s in range(7, MAX_POINTS + 7)]
    assert document["events"][0]["at_s"] == MAX_POINTS + 7 - MAX_EVENTS
    assert len(document["events"]) == MAX_EVENTS
    assert document["number"] == MAX_POINTS + 7


def test_an_update_has_what_a_client_appends_to_each_series() -> None:
    history = History()
    history.add(snapshot(governed("a", length=3)), [])
    document = render_history(history)
    update = render_update(history.add(snapshot(governed("a", length=5)), []))
    latest = update["latest"]
    assert set(document["points"]["traffic"]) == set(latest["traffic"]) == set(TRAFFIC_SERIES)
    assert set(document["points"]["fleet"]) == set(latest["fleet"]) == set(REPLICA_SERIES)
    (replica,) = latest["replicas"]
    assert set(document["points"]["replicas"]["a"]) <= set(replica)
    appended = document["points"]["replicas"]["a"]["draft_length"] + [replica["draft_length"]]
    assert appended == render_history(history)["points"]["replicas"]["a"]["draft_length"] == [3, 5]


def test_a_replica_has_no_values_before_it_joined_and_none_is_kept_once_it_left() -> None:
    history = History()
    history.add(snapshot(view("old", draft_length=1)), [])
    history.add(snapshot(view("new", draft_length=2)), [])
    replicas = render_history(history)["points"]["replicas"]
    assert {name: series["draft_length"] for name, series in replicas.items()} == {"new": [None, 2]}


def test_an_empty_history_is_a_document() -> None:
    document = render_history(History())
    assert (document["number"], document["latest"], document["events"]) == (0, None, [])


def test_values_have_four_digits() -> None:
    assert [rounded(value) for value in (0.123456, 98765.4, 7, None)] == [0.1235, 98770.0, 7, None]


def test_five_minutes_of_fifty_replicas_fit_into_a_megabyte() -> None:
    history = History()
    views = [
        view(f"replica-{i}", draft_length=4, accepted_fraction=0.73219, tokens_per_s=1234.567,
             expected_tokens_per_s=1300.1)
        for i in range(50)
    ]  # fmt: skip
    for _ in range(MAX_POINTS):
        history.add(snapshot(*views), [])
    assert len(json.dumps(render_history(history), separators=(",", ":"))) < 1_000_000
