"""The governor states that an admin port shows."""

from __future__ import annotations

from paceline.operations.doctor.observing.server import governor_states


def test_replicas_without_a_governor_are_left_out() -> None:
    document = {
        "replicas": {"r0": {"policy": "goodput"}, "r1": {"error": "no channel"}, "r2": None}
    }
    assert governor_states(document) == {"r0": {"policy": "goodput"}}


def test_another_document_has_no_states() -> None:
    assert governor_states({}) == {}
    assert governor_states({"replicas": []}) == {}
