"""`ReplicaSignals`: how a replica does at this moment, apart from what it is (`replicas.Replica`).

Signals change every few seconds. They travel to the worker processes by themselves, without the
list of replicas and its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReplicaSignals:
    """The last figures that a replica reported; None for a figure that it does not report."""

    num_running: int | None = None
    """Sequences being computed, for all clients of the replica."""
    num_waiting: int | None = None
    """Sequences in the replica's own queue."""
    kv_usage_fraction: float | None = None
    """Fraction of the KV cache in use."""
    accepted_fraction: float | None = None
    """Fraction of draft tokens that the target accepted between the last two readings."""
    seconds_per_token: float | None = None
    """Time between two tokens of one sequence, mean over all sequences between the last two
    readings."""


class SignalSource(Protocol):
    """Where routing reads the signals."""

    def signals(self) -> Mapping[str, ReplicaSignals]:
        """By replica, without those that are too old. Answers from memory, without raising."""
        ...


class NoSignals:
    """The `SignalSource` where nothing polls the replicas."""

    def signals(self) -> Mapping[str, ReplicaSignals]:
        return {}
