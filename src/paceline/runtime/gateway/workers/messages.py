"""Messages between the parent process and its workers.

Values, encoded as lines of JSON. They travel over a socket pair that only these two processes
hold, so they may contain the API keys of replicas.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from paceline.runtime.gateway.metrics.samples import FamilyOfSamples
from paceline.runtime.gateway.peers import SlotDemand
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.routing.stream_progress import ProgressReport
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.signals import ReplicaSignals

T = TypeVar("T")


class Setup(msgspec.Struct, tag="setup", frozen=True):
    """To a worker, as the first message."""

    settings: GatewaySettings
    worker_index: int = 0
    gateway_id: str = ""
    """See `gateway.hops`."""


class ReplicaList(msgspec.Struct, tag="replicas", frozen=True):
    """To a worker, whenever a replica has changed: all replicas."""

    version: int
    """Rises with each change."""
    replicas: tuple[Replica, ...]


class SignalUpdate(msgspec.Struct, tag="signals", frozen=True):
    """To a worker, whenever a replica has reported new figures: those of all replicas."""

    signals: dict[str, ReplicaSignals] = {}
    """By replica."""


class SlotAllocation(msgspec.Struct, frozen=True):
    """One worker's part of the slots of one replica. A slot holds one sequence."""

    num_slots: int
    """Slots of the replica, over all workers."""
    limit: int
    """Most sequences that the worker may hold now."""
    fair_share: int
    """Slots that the worker would get if it wanted as many as possible."""
    num_waiting_in_peers: int = 0
    num_held_by_peers: int = 0


class PeerState(msgspec.Struct, tag="peers", frozen=True):
    """To a worker, whenever it has changed: what its peers hold, and the slots left to it."""

    version: int = 0
    """From 1, rising by one."""
    slots: dict[str, SlotAllocation] = {}
    """By replica."""
    queue_lengths: dict[str, int] = {}
    """Waiting requests by model, summed over the peers."""


class MetricsRequest(msgspec.Struct, tag="metrics_request", frozen=True):
    """To a worker: send a `MetricsReport`."""


class Discourage(msgspec.Struct, tag="discourage", frozen=True):
    """To a worker: serve on, but have clients leave (`DataPort.discourage`)."""

    is_accepting: bool = True


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """To a worker: accept no new connections, complete the requests in flight, and exit."""

    at_once: bool = False
    """End the requests in flight with an error instead; also valid during a drain."""


class CutHung(msgspec.Struct, tag="cut_hung", frozen=True):
    """To a worker: a replica hangs; end the attempts on it."""

    replica: str


ToWorker = (
    Setup | ReplicaList | SignalUpdate | PeerState | MetricsRequest | CutHung | Discourage | Stop
)


class WorkerReady(msgspec.Struct, tag="ready", frozen=True):
    """To the parent: the worker accepts connections."""


class WorkerUnfit(msgspec.Struct, tag="unfit", frozen=True):
    """To the parent: the worker cannot serve with its settings."""

    reason: str


class WorkerReport(msgspec.Struct, tag="report", frozen=True):
    """To the parent, whenever it has changed: what the worker holds, and which state it uses."""

    replicas_version: int = 0
    """Version of the `ReplicaList` in use."""
    peers_version: int = 0
    """Version of the `PeerState` in use."""
    in_flight: dict[str, int] = {}
    """Requests by replica; replicas without requests are omitted."""
    demands: dict[str, SlotDemand] = {}
    """By replica; replicas without demand are omitted."""
    queue_lengths: dict[str, int] = {}
    """Waiting requests by model; models without any are omitted."""
    breakers: dict[str, BreakerState] = {}
    """By replica."""


class WorkerProgress(msgspec.Struct, tag="progress", frozen=True):
    """To the parent, once a second: when the worker's attempts last received anything."""

    report: ProgressReport


class MetricsReport(msgspec.Struct, tag="metrics", frozen=True):
    """To the parent: everything that the worker has counted since its start."""

    families: tuple[FamilyOfSamples, ...] = ()


ToParent = WorkerReady | WorkerUnfit | WorkerReport | WorkerProgress | MetricsReport


def encode_line(message: msgspec.Struct) -> bytes:
    return _ENCODER.encode(message) + b"\n"


class LineDecoder(Generic[T]):
    """Decodes the messages of one direction. Raises `msgspec.DecodeError` for anything else."""

    def __init__(self, types: Any) -> None:
        """`types` is the union of the allowed messages."""
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(types, dec_hook=_from_json)

    def decode(self, line: bytes) -> T:
        return self._decoder.decode(line)


# Settings and replicas contain paths, which JSON lacks. msgspec calls these hooks for every type
# that it does not know; NotImplementedError says that the hook does not know it either.


def _to_json(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _from_json(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)


_ENCODER = msgspec.json.Encoder(enc_hook=_to_json)
