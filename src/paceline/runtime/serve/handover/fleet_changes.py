"""The operators' changes to the replicas as JSON values, for a process that takes over."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from paceline.runtime.gateway import Fleet, ReplicaEntry
from paceline.runtime.gateway.fleet import FleetConflict, UnknownReplica

logger = logging.getLogger(__name__)


def snapshot_changes(fleet: Fleet) -> dict[str, Any]:
    """Entries added at run time, with their keys, and the names of everything that is drained.

    Replicas that were removed at run time are not in it: the new process follows its own file.
    """
    drained = {status.replica.name for status in fleet.statuses() if status.is_draining}
    drained |= {entry.name for entry in fleet.dns_entries() if entry.is_draining}
    added = [asdict(entry) for entry in fleet.added_entries()]
    return {"added": added, "drained": sorted(drained)}


def apply_changes(fleet: Fleet, changes: Mapping[str, Any]) -> None:
    """Make the changes those of the snapshot, also where an earlier one was applied before.

    Changes that contradict the new process's own configuration are left out, and so are entries
    that it does not accept: the old process may be an older version.
    """
    added = list(_accepted(changes.get("added", [])))
    for entry in fleet.added_entries():
        if entry not in added:
            with contextlib.suppress(FleetConflict, UnknownReplica):
                fleet.remove(entry.label)
    for entry in added:
        with contextlib.suppress(FleetConflict):
            fleet.add(entry)
    # An entry first: what is set for it applies to all its replicas.
    names = [entry.name for entry in fleet.dns_entries()]
    names += [status.replica.name for status in fleet.statuses()]
    for name in names:
        with contextlib.suppress(FleetConflict, UnknownReplica):
            fleet.set_draining(name, name in changes.get("drained", []))


def _accepted(entries: Iterable[Mapping[str, Any]]) -> Iterator[ReplicaEntry]:
    for given in entries:
        try:
            yield ReplicaEntry(**given)
        except ValueError as error:
            logger.warning("a replica added at run time is not taken over: %s", error)
