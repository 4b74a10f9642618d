"""The requests that restore the governor of a restarted engine."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.admin.governor_changes import GovernorChanges


@pytest.mark.parametrize(
    ("changes", "commands"),
    [
        ([], []),
        ([{"policy": "off"}], [{"op": "set", "policy": "off"}]),
        (
            [{"ceiling": 4}, {"draft_length": 3}, {"policy": "goodput"}],
            [{"op": "set", "policy": "goodput"}, {"op": "set", "ceiling": 4}],
        ),
        (
            [{"draft_length": 6}, {"ceiling": 4}],
            [{"op": "set", "draft_length": 6}, {"op": "set", "ceiling": 4}],
        ),
        (
            [{"policy": "fixed", "draft_length": 2, "ceiling": 4}, {"ceiling": 8}],
            [
                {"op": "set", "policy": "fixed", "draft_length": 2},
                {"op": "set", "ceiling": 8},
            ],
        ),
    ],
)
def test_the_last_change_of_each_kind_is_repeated_with_the_ceiling_last(
    changes: list[dict[str, object]], commands: list[dict[str, object]]
) -> None:
    """A policy and a draft length replace each other; the ceiling is independent of both."""
    remembered = GovernorChanges()
    for change in changes:
        remembered.note("a", change)
    assert remembered.commands("a") == commands
    assert remembered.commands("b") == []
