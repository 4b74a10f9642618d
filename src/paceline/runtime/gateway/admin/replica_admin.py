"""The requests to /admin/replicas: list, add, drain and remove replicas.

Translates JSON to calls of the fleet and back. A change that the fleet rejects becomes a 4xx.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paceline.runtime.gateway.admin.engine_restarts import EngineRestarts
from paceline.runtime.gateway.fleet import (
    DnsEntryStatus,
    Fleet,
    FleetConflict,
    ReplicaStatus,
    UnknownReplica,
)
from paceline.runtime.gateway.http.errors import (
    Problem,
    Refusal,
    invalid,
    listed,
    refuse_unknown_fields,
)
from paceline.runtime.gateway.settings import ReplicaEntry
from paceline.runtime.gateway.signals import ReplicaSignals

_ENTRY_TYPES: Mapping[str, tuple[type, str]] = {
    "url": (str, "a string"),
    "dns": (str, "a string"),
    "name": (str, "a string"),
    "model": (str, "a string"),
    "dialect": (str, "a string"),
    "drafts": (bool, "true or false"),
    "revision": (str, "a string"),
    "key": (str, "a string"),
    "max_in_flight": (int, "an integer"),
    "max_tokens_in_flight": (int, "an integer"),
}

ENTRY_FIELDS = tuple(_ENTRY_TYPES)
"""Of a POST."""
CHANGE_FIELDS = ("name", "draining", "restart")
"""Of a PATCH."""

_NO_SIGNALS = ReplicaSignals()

NumInFlight = Callable[[str], int]


def describe_fleet(fleet: Fleet, num_in_flight: NumInFlight) -> dict[str, object]:
    """All replicas and all DNS entries."""
    now_s = time.monotonic()
    loads, signals = fleet.loads(), fleet.signals()
    replicas = []
    for status in fleet.statuses():
        described = _describe(status, num_in_flight, now_s)
        load = loads.get(status.replica.name)
        figures = {} if load is None else asdict(load)
        figures.pop("activity", None)  # only changes of it mean something
        figures.pop("inter_token", None)  # /metrics has it
        described["load"] = figures or None
        rates = signals.get(status.replica.name, _NO_SIGNALS)
        described["accepted_fraction"] = rates.accepted_fraction
        described["seconds_per_token"] = rates.seconds_per_token
        replicas.append(described)
    return {"replicas": replicas, "dns": [_describe_name(name) for name in fleet.dns_entries()]}


def check_entry(request: Mapping[str, Any]) -> ReplicaEntry:
    """The entry of a POST: as in the configuration, but with the key itself instead of `key_file`.

    Raises `Refusal` (400).
    """
    _refuse_unknown(request, _ENTRY_TYPES)
    for name, value in request.items():
        kind, type_name = _ENTRY_TYPES[name]
        if value is not None and type(value) is not kind:
            raise invalid(f"{name} must be {type_name}.", name)
    given = {name: value for name, value in request.items() if value is not None}
    try:
        return ReplicaEntry(**given)
    except ValueError as error:
        field = str(error).partition(" ")[0]
        raise invalid(f"{error}.", field if field in _ENTRY_TYPES else None) from None


def add_replica(fleet: Fleet, entry: ReplicaEntry) -> dict[str, object]:
    """POST: add it. Raises `Refusal` (409)."""
    try:
        fleet.add(entry)
    except FleetConflict as conflict:
        raise _conflict(conflict, "replica_exists") from None
    return {"name": entry.label, "state": "starting"}


def check_replica_change(request: Mapping[str, Any]) -> None:
    """Check a PATCH: {"name", "draining"} or {"name", "restart": true}. Raises `Refusal` (400)."""
    is_restart = "restart" in request
    _refuse_unknown(request, ("name", "restart" if is_restart else "draining"))
    if not isinstance(request.get("name"), str):
        kind = "an engine" if is_restart else "a replica or of a DNS entry"
        raise invalid(f"name must be the name of {kind}.", "name")
    if is_restart and request["restart"] is not True:
        raise invalid("restart must be true.", "restart")
    if not is_restart and not isinstance(request.get("draining"), bool):
        raise invalid("draining must be true or false.", "draining")


def is_replica_or_entry(fleet: Fleet, name: str) -> bool:
    """Whether a replica or a DNS entry has this name."""
    return name in _known_names(fleet)


def restart_replica(
    fleet: Fleet, name: str, restarts: EngineRestarts, num_in_flight: NumInFlight
) -> dict[str, object]:
    """PATCH: drain an engine, restart it, return it to service."""
    try:
        restarts.begin(name)
    except UnknownReplica:
        raise _not_found(fleet, name) from None
    except FleetConflict as conflict:
        raise _conflict(conflict, "replica_not_restartable") from None
    return {"name": name, "restarting": True, "in_flight": num_in_flight(name)}


def drain_replica(
    fleet: Fleet, name: str, is_draining: bool, num_in_flight: NumInFlight
) -> dict[str, object]:
    """PATCH: drain a replica or return it to service."""
    try:
        fleet.set_draining(name, is_draining)
    except UnknownReplica:
        raise _not_found(fleet, name) from None
    except FleetConflict as conflict:
        raise _conflict(conflict, "replica_leaving") from None
    return {
        "name": name,
        "draining": is_draining,
        "in_flight": sum(map(num_in_flight, _members_of(fleet, name))),
    }


def remove_replica(
    fleet: Fleet, names: Sequence[str], num_in_flight: NumInFlight
) -> dict[str, object]:
    """DELETE ?name=. Replicas with requests in flight are removed once these have ended."""
    if len(names) != 1:
        raise invalid("Give the name of one replica or DNS entry, as ?name=.", "name")
    name = names[0]
    members = _members_of(fleet, name)
    try:
        is_gone = fleet.remove(name)
    except UnknownReplica:
        raise _not_found(fleet, name) from None
    except FleetConflict as conflict:
        raise _conflict(conflict, "replica_not_removable") from None
    return {
        "name": name,
        "state": "removed" if is_gone else "draining",
        "in_flight": sum(map(num_in_flight, members)),
    }


def _describe(status: ReplicaStatus, num_in_flight: NumInFlight, now_s: float) -> dict[str, Any]:
    replica, polled_at_s = status.replica, status.polled_at_s
    return {
        "name": replica.name,
        "state": replica.state,
        "reason": status.reason or None,
        "model": replica.model or None,
        "other_models": sorted(replica.other_models),
        "in_flight": num_in_flight(replica.name),
        "max_in_flight": replica.max_in_flight,
        "max_tokens_in_flight": replica.max_tokens_in_flight,
        "origin": status.origin,
        "entry": status.entry,
        "address_kind": "unix" if replica.is_unix else "http",
        "url": None if replica.is_unix else replica.address,
        "dialect": replica.dialect,
        "drafts": replica.drafts,
        "draft": replica.draft,
        "honours_draft_caps": replica.honours_draft_caps,
        "revision": replica.revision,
        "version": replica.version,
        "draining": status.is_draining or status.is_leaving,
        "has_governor": replica.control_socket is not None,
        "max_model_len": replica.max_model_len,
        "restarts": replica.num_restarts,
        "planned_restarts": None if replica.num_restarts is None else replica.num_planned_restarts,
        "last_poll_age_s": None if polled_at_s is None else round(now_s - polled_at_s, 3),
        "load_failure": status.load.failure or None,
    }


def _describe_name(name: DnsEntryStatus) -> dict[str, Any]:
    return {
        "name": name.name,
        "dns": name.dns,
        "addresses": list(name.addresses),
        "failure": name.failure or None,
        "draining": name.is_draining,
    }


def _members_of(fleet: Fleet, name: str) -> list[str]:
    """Names of the replicas: the one with this name, or all of the DNS entry."""
    return [
        status.replica.name
        for status in fleet.statuses()
        if name in (status.replica.name, status.entry)
    ]


def _refuse_unknown(request: Mapping[str, Any], allowed: Collection[str]) -> None:
    if "key_file" in request:
        # With key_file an operator could have any file of this machine sent to a replica.
        raise invalid(
            "key_file is allowed only in paceline.yaml; here give the key itself, as key.",
            "key_file",
            code="unknown_field",
        )
    refuse_unknown_fields(request, allowed)


def _known_names(fleet: Fleet) -> list[str]:
    return [
        *(status.replica.name for status in fleet.statuses()),
        *(dns.name for dns in fleet.dns_entries()),
    ]


def _not_found(fleet: Fleet, name: str) -> Refusal:
    return Refusal(
        Problem(
            404,
            f"There is no replica {name[:100]!a}; known replicas: "
            f"{listed(_known_names(fleet)) or 'none'}.",
            "replica_not_found",
            "name",
        )
    )


def _conflict(conflict: FleetConflict, code: str) -> Refusal:
    return Refusal(Problem(409, str(conflict), code, "name"))
