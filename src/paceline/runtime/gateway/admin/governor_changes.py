"""Remember the governor changes that operators made, to repeat them after an engine restart.

Kept in memory per replica while the gateway runs. `governor_control` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POLICY_KEYS = ("policy", "policy_parameters", "draft_length")


class GovernorChanges:
    """The accepted changes that are still in force: one small entry per replica."""

    def __init__(self) -> None:
        self._policies: dict[str, dict[str, object]] = {}
        self._ceilings: dict[str, object] = {}

    def note(self, replica: str, change: Mapping[str, object]) -> None:
        """Remember a change that the replica accepted. A later one of the same kind replaces it."""
        policy = {key: change[key] for key in _POLICY_KEYS if key in change}
        if policy:
            self._policies[replica] = policy
        if "ceiling" in change:
            self._ceilings[replica] = change["ceiling"]

    def snapshot(self) -> dict[str, Any]:
        """All changes as JSON values, for `restore` in another process."""
        return {"policies": dict(self._policies), "ceilings": dict(self._ceilings)}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Replace all changes by those of a snapshot."""
        self._policies = dict(snapshot.get("policies", {}))
        self._ceilings = dict(snapshot.get("ceilings", {}))

    def commands(self, replica: str) -> list[dict[str, object]]:
        """The requests that restore the operator's changes on a new engine, in order; may be empty.

        The ceiling comes last: a draft length from before a lower ceiling would be refused.
        """
        commands = []
        if replica in self._policies:
            commands.append({"op": "set", **self._policies[replica]})
        if replica in self._ceilings:
            commands.append({"op": "set", "ceiling": self._ceilings[replica]})
        return commands
