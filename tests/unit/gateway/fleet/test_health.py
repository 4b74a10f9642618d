"""Transitions of `ReplicaHealth`."""

from __future__ import annotations

from paceline.runtime.gateway.fleet.health import ReplicaHealth


def test_a_replica_is_ready_after_a_good_poll_and_a_warm_up() -> None:
    answered = ReplicaHealth().poll_answered()
    assert (answered.state, answered.needs_warm_up) == ("starting", True)
    ready = answered.warm_up_succeeded()
    assert (ready.state, ready.reason, ready.needs_warm_up) == ("ready", "", False)


def test_a_ready_replica_goes_down_after_the_given_number_of_failures_in_a_row() -> None:
    health = ReplicaHealth("ready", "")
    states = []
    for _ in range(3):
        health = health.poll_failed("no answer", 3)
        states.append(health.state)
    assert states == ["ready", "ready", "down"]
    assert health.reason == "no answer"


def test_one_good_poll_resets_the_failure_count_of_a_ready_replica() -> None:
    health = (
        ReplicaHealth("ready", "")
        .poll_failed("no answer", 3)
        .poll_failed("no answer", 3)
        .poll_answered()
    )
    assert health == ReplicaHealth("ready", "")


def test_a_replica_that_is_back_needs_warm_up_again() -> None:
    back = ReplicaHealth("down", "no answer", 3).poll_answered()
    assert (back.state, back.needs_warm_up) == ("starting", True)


def test_a_replica_that_answers_polls_but_fails_its_warm_up_goes_down() -> None:
    health = ReplicaHealth()
    for _ in range(3):
        health = health.poll_answered().poll_failed("warm-up failed", 3)
    assert (health.state, health.reason) == ("down", "warm-up failed")
