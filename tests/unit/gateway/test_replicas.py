"""Replicas check their address; their limits are their own or the gateway's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.gateway.replicas import (
    Replica,
    longest_context,
    model_ids,
    named,
    num_slots_by_name,
    num_slots_of,
    of_model,
    queue_of,
    was_stopped,
)
from paceline.runtime.gateway.settings import AdmissionSettings

R0 = Replica("r0", "/run/r0.sock", "tiny", "ready", max_model_len=100)
R1 = Replica("r1", "http://host:8000", "tiny", "ready", max_model_len=200)
DOWN = Replica("r2", "/run/r2.sock", "tiny", "down")


def test_the_longest_context_is_unknown_when_one_is() -> None:
    assert longest_context([R0, R1], "tiny") == 200
    assert longest_context([R0, DOWN], "tiny") is None
    assert longest_context([], "tiny") is None


def with_ids(name: str, first: str, *others: str) -> Replica:
    return Replica(name, "http://a", first, "ready", other_models=dict.fromkeys(others, 8))


def test_each_id_of_a_replica_is_served_with_its_own_context() -> None:
    a = replace(with_ids("a", "base", "alias", "lora"), max_model_len=100)
    b = with_ids("b", "base", "alias")
    assert model_ids([a, b, Replica("c", "/c", "", "starting")]) == ["base", "alias", "lora"]
    assert [one.name for one in of_model([a, b], "lora")] == ["a"]
    assert longest_context([a], "base") == 100
    assert longest_context([a, b], "alias") == 8


@pytest.mark.parametrize(
    ("replicas", "queues"),
    [
        # one queue for all ids of the same replicas, whatever the order in which they list them
        ([with_ids("a", "x", "y"), with_ids("b", "x", "y")], {"x": "x", "y": "x"}),
        ([with_ids("a", "x", "y"), with_ids("b", "y", "x")], {"x": "x", "y": "x"}),
        # an adapter that one of them has loaded
        ([with_ids("a", "x"), with_ids("b", "x", "lora")], {"x": "x", "lora": "x"}),
        # a replica whose entry names one id only must get requests for it too
        ([with_ids("a", "x", "y"), with_ids("b", "y")], {"x": "x", "y": "y"}),
        ([with_ids("a", "x"), with_ids("b", "y")], {"x": "x", "y": "y"}),
    ],
)
def test_ids_of_the_same_replicas_share_a_queue(
    replicas: list[Replica], queues: dict[str, str]
) -> None:
    assert {model: queue_of(replicas, model) for model in queues} == queues


@pytest.mark.parametrize("address", ["relative.sock", ""])
def test_replica_addresses_of_other_kinds_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="Unix socket"):
        Replica("r0", address, "tiny", "ready")


def test_only_ready_replicas_have_slots() -> None:
    replicas = [
        Replica("a", "/a", "tiny", "ready", max_in_flight=4),
        Replica("b", "/b", "tiny", "ready"),
        Replica("c", "/c", "tiny", "starting", max_in_flight=100),
        Replica("d", "/d", "tiny", "draining", max_in_flight=100),
    ]
    settings = AdmissionSettings(max_in_flight=16)
    assert [num_slots_of(replica, settings) for replica in replicas] == [4, 16, 100, 100]
    assert num_slots_by_name(replicas, settings) == {"a": 4, "b": 16}


def test_texts_of_a_replica_can_be_encoded() -> None:
    """The name of a folder may be no UTF-8, and a model may be named so in JSON."""
    replica = Replica("r0", "/a", "tiny\ud800", "ready", draft="/models/\udcffé")
    assert (replica.model, replica.draft) == ("tiny\ufffd", "/models/\ufffdé")


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (None, True),
        (replace(R0, state="draining"), True),
        (replace(R0, state="starting", num_restarts=1, num_planned_restarts=1), True),
        (R0, False),
        (replace(R0, state="down"), False),
        (replace(R0, state="starting", num_restarts=1), False),
    ],
)
def test_a_replica_that_is_stopped_on_purpose_has_not_died(
    now: Replica | None, expected: bool
) -> None:
    assert was_stopped(R0, now) is expected


def test_replicas_are_found_by_name() -> None:
    assert named([R0, R1], "r1") is R1
    assert named([R0, R1], "r2") is None
