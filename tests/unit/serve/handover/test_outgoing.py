"""When engines cannot be handed over."""

from __future__ import annotations

import pytest

from paceline.runtime.serve.handover.outgoing import find_obstacle, find_obstacle_to_offer


@pytest.mark.parametrize(
    ("taken", "running", "restarting", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, [], None),
        ({}, {}, [], None),
        ({"a": 1}, {"a": 3}, [], "a has ended or was restarted meanwhile; take over again"),
        ({"a": 1}, {}, [], "a has ended or was restarted meanwhile; take over again"),
        ({}, {"b": 2}, ["b"], "b is being restarted; take over when it is ready again"),
    ],
)
def test_restarts_and_engines_that_have_changed_are_obstacles(
    taken: dict[str, int], running: dict[str, int], restarting: list[str], expected: str | None
) -> None:
    """Process ids of guards by name. An engine that nobody takes may have ended."""
    assert find_obstacle(taken, running, restarting) == expected


@pytest.mark.parametrize(
    ("unready", "restarting", "expected"),
    [
        ({}, [], None),
        ({"a": "starting"}, [], "a is starting; take over when it is ready"),
        ({"a": "down"}, [], "a is down; take over when it is ready"),
        ({}, ["b"], "b is being restarted; take over when it is ready again"),
        ({"b": "down"}, ["b"], "b is being restarted; take over when it is ready again"),
    ],
)
def test_nothing_is_offered_while_an_engine_is_not_ready(
    unready: dict[str, str], restarting: list[str], expected: str | None
) -> None:
    assert find_obstacle_to_offer(unready, restarting) == expected
