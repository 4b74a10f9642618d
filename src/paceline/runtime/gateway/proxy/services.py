"""`GatewayServices`: the objects that all requests of one process share."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.runtime.gateway.admission import AdmissionQueues
from paceline.runtime.gateway.capture.prompt_capture import PromptCapture
from paceline.runtime.gateway.http.byte_budget import ByteBudget
from paceline.runtime.gateway.http.decoding_turns import DecodingTurns
from paceline.runtime.gateway.keys.access import DataAccess
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.proxy.lease import Lease, LeaseTable
from paceline.runtime.gateway.proxy.retry_budget import RetryBudget
from paceline.runtime.gateway.proxy.second_opinions import SecondOpinions
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import ReplicaSource
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class GatewayServices:
    """One set per process. Their state changes between awaits only."""

    settings: GatewaySettings
    source: ReplicaSource
    access: DataAccess
    counting_turns: DecodingTurns
    """Of the parts of bodies that arrive."""
    decoding_turns: DecodingTurns
    """Of whole bodies. Their own: a request that waits for its turn has its deadline."""
    bytes_held: ByteBudget
    admissions: AdmissionQueues[Lease]
    router: Router
    leases: LeaseTable
    upstreams: Upstreams
    retries: RetryBudget
    """For attempts that begin an answer anew."""
    continuations: RetryBudget
    """For attempts that continue a stream."""
    opinions: SecondOpinions
    metrics: GatewayMetrics
    gateway_id: str
    """Of the gateway, whichever of its processes this is; see `gateway.hops`."""
    capture: PromptCapture | None = None
    """None where no prompts are kept."""
