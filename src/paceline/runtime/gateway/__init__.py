"""The gateway: a plain ASGI application between clients and one or many replicas.

The names below are for `paceline serve` and embedding programs; the packages of the gateway import
each other directly.
"""

from paceline.runtime.gateway.admin.engine_drafts import (
    CheckedDraft,
    DraftUnfit,
    EngineDraft,
    EngineDrafts,
)
from paceline.runtime.gateway.admin.governor_changes import GovernorChanges
from paceline.runtime.gateway.admin.governor_control import send_to_governor
from paceline.runtime.gateway.fleet import Fleet
from paceline.runtime.gateway.http.listening import PortTaken
from paceline.runtime.gateway.replicas import Replica, ReplicaSource, ReplicaState
from paceline.runtime.gateway.server import RunningGateway, serve_gateway
from paceline.runtime.gateway.settings import FleetSettings, GatewaySettings, ReplicaEntry
from paceline.runtime.gateway.workers.worker_process import WorkerFailed

__all__ = [
    "CheckedDraft",
    "DraftUnfit",
    "EngineDraft",
    "EngineDrafts",
    "Fleet",
    "FleetSettings",
    "GatewaySettings",
    "GovernorChanges",
    "PortTaken",
    "Replica",
    "ReplicaEntry",
    "ReplicaSource",
    "ReplicaState",
    "RunningGateway",
    "WorkerFailed",
    "send_to_governor",
    "serve_gateway",
]
