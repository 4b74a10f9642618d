"""The replicas of the gateway: which there are, whether they can serve, and how loaded they are.

Inside: `dialects` is the table of servers; `load`, `error_bodies`, `health` and `dns_addresses`
are decisions; `prober` talks HTTP to one replica and `dns_entry` resolves names; `remote_replica`
and `local_engines` keep the state of each replica; `fleet` holds all of them and owns their tasks.
"""

from paceline.runtime.gateway.fleet.error_bodies import error_message_of, is_context_error
from paceline.runtime.gateway.fleet.fleet import Fleet, FleetConflict, UnknownReplica
from paceline.runtime.gateway.fleet.load import ReplicaLoad
from paceline.runtime.gateway.fleet.status import DnsEntryStatus, ReplicaStatus

__all__ = [
    "DnsEntryStatus",
    "Fleet",
    "FleetConflict",
    "ReplicaLoad",
    "ReplicaStatus",
    "UnknownReplica",
    "error_message_of",
    "is_context_error",
]
