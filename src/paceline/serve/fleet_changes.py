"""The operators' changes to the replicas as JSON values, for a process that takes over."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from paceline.gateway.fleet import Fleet, FleetConflict, UnknownReplica
from paceline.gateway.settings import ReplicaEntry


def snapshot_changes(fleet: Fleet) -> dict[str, Any]:
    """Entries added at run time, with their keys, and the names of everything that is drained.

    Replicas that were removed at run time are not in it: the new process follows its own file.
    """
    drained = {status.replica.name for status in fleet.statuses() if status.is_draining}
    drained |= {entry.name for entry in fleet.dns_entries() if entry.is_draining}
    added = [asdict(entry) for entry in fleet.added_entries()]
    return {"added": added, "drained": sorted(drained)}


def apply_changes(fleet: Fleet, changes: Mapping[str, Any]) -> None:
    """Repeat the changes, except those that contradict the new process's own configuration."""
    for given in changes.get("added", []):
        with contextlib.suppress(FleetConflict):
            fleet.add(ReplicaEntry(**given))
    for name in changes.get("drained", []):
        with contextlib.suppress(FleetConflict, UnknownReplica):
            fleet.set_draining(name, is_draining=True)
