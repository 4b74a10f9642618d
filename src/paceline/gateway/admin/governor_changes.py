"""What have operators changed in the governors, so that a restarted engine can be told again?

Kept in memory, per replica: as long as this gateway runs. Sending is for `control`.
"""

from __future__ import annotations

from collections.abc import Mapping


class GovernorChanges:
    """The changes in force, of all that were accepted. One small entry per replica."""

    def __init__(self) -> None:
        self._policies: dict[str, dict[str, object]] = {}
        self._ceilings: dict[str, object] = {}

    def note(self, replica: str, change: Mapping[str, object]) -> None:
        """Remember a change that the replica accepted. A later one of the same kind replaces it."""
        policy = {key: change[key] for key in ("policy", "draft_length") if key in change}
        if policy:
            self._policies[replica] = policy
        if "ceiling" in change:
            self._ceilings[replica] = change["ceiling"]

    def commands(self, replica: str) -> list[dict[str, object]]:
        """What brings a fresh engine to where the operator left it, in this order; may be empty.

        The ceiling comes last: a draft length set before the ceiling fell is above it, and would
        be refused.
        """
        commands = []
        if replica in self._policies:
            commands.append({"op": "set", **self._policies[replica]})
        if replica in self._ceilings:
            commands.append({"op": "set", "ceiling": self._ceilings[replica]})
        return commands
