"""The gateway: clients meet the engines here. Plain ASGI in front of one or many replicas."""

from paceline.gateway.admin.governor_changes import GovernorChanges
from paceline.gateway.admin.governor_control import ask
from paceline.gateway.fleet import Fleet
from paceline.gateway.http.listening import PortTaken
from paceline.gateway.replicas import Replica, ReplicaSource, ReplicaState
from paceline.gateway.server import RunningGateway, serve_gateway
from paceline.gateway.settings import FleetSettings, GatewaySettings, ReplicaEntry
from paceline.gateway.workers.worker_process import WorkerFailed

__all__ = [
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
    "ask",
    "serve_gateway",
]
