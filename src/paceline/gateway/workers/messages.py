"""What do the head and a worker tell each other?

Values, as lines of JSON. They travel over a socket pair that only these two processes hold, so the
keys of replicas may be among them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from paceline.gateway.admission.slot_quota import Demand
from paceline.gateway.metrics.samples import FamilyOfSamples
from paceline.gateway.replicas import Replica
from paceline.gateway.routing.breaker import BreakerState
from paceline.gateway.settings import GatewaySettings

T = TypeVar("T")


class Setup(msgspec.Struct, tag="setup", frozen=True):
    """To a worker, first and once."""

    settings: GatewaySettings


class Replicas(msgspec.Struct, tag="replicas", frozen=True):
    """To a worker: all replicas, whenever one has changed."""

    number: int
    """Rises with each change."""
    replicas: tuple[Replica, ...]


class Part(msgspec.Struct, frozen=True):
    """What a worker has of the slots of one model."""

    of: int
    """All slots."""
    limit: int
    """Requests that it may hold."""
    share: int
    """What that would come to if it wanted as many as it can get."""
    num_waiting_elsewhere: int = 0
    num_held_elsewhere: int = 0


class Elsewhere(msgspec.Struct, tag="elsewhere", frozen=True):
    """To a worker: what the others hold, and what they leave to it; whenever that has changed."""

    number: int = 0
    """From 1, one more each time."""
    in_flight: dict[str, int] = {}
    """By replica, over all others."""
    parts: dict[str, Part] = {}
    """By model."""


class Ask(msgspec.Struct, tag="ask", frozen=True):
    """To a worker: send your `Counts`."""


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """To a worker: take no new connections, end the requests in flight, and exit."""

    at_once: bool = False
    """Have their clients told that they are not complete; also when they are being ended."""


ToWorker = Setup | Replicas | Elsewhere | Ask | Stop


class Serving(msgspec.Struct, tag="serving", frozen=True):
    """To the head: the worker takes connections."""


class Unfit(msgspec.Struct, tag="unfit", frozen=True):
    """To the head: the worker cannot serve with these settings."""

    why: str


class Report(msgspec.Struct, tag="report", frozen=True):
    """To the head: what the worker holds and goes by, whenever that has changed."""

    replicas_heard: int = 0
    """The number of the `Replicas` that it goes by."""
    places_heard: int = 0
    """The number of the `Elsewhere` that it goes by."""
    in_flight: dict[str, int] = {}
    """By replica, without those that have none."""
    demands: dict[str, Demand] = {}
    """By model, without those that have none."""
    breakers: dict[str, BreakerState] = {}


class Hung(msgspec.Struct, tag="hung", frozen=True):
    """To the head: this replica brings no bytes although it should."""

    replica: str


class Counts(msgspec.Struct, tag="counts", frozen=True):
    """To the head: all that the worker has counted since it began."""

    families: tuple[FamilyOfSamples, ...] = ()


ToHead = Serving | Unfit | Report | Hung | Counts


def encode_line(message: msgspec.Struct) -> bytes:
    return _ENCODER.encode(message) + b"\n"


class LineDecoder(Generic[T]):
    """For the messages of one direction. `msgspec.DecodeError` for anything else."""

    def __init__(self, kinds: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kinds, dec_hook=_of_text)

    def decode(self, line: bytes) -> T:
        return self._decoder.decode(line)


# What the settings and replicas hold and JSON does not: paths. msgspec asks these two for every
# kind that it does not know, and takes NotImplementedError for the answer that nobody does.


def _to_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _of_text(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)


_ENCODER = msgspec.json.Encoder(enc_hook=_to_text)
