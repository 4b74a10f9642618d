"""Decide from health polls whether a remote replica takes traffic.

A pure decision: an immutable value and its transitions. `remote_replica` polls, and warms a
replica up when `needs_warm_up` says so.

    starting ──poll answered, warm-up succeeded──▶ ready ──k polls failed──▶ down
        ▲  └──────────────k polls failed──────────────────────────────────▶ │
        └────────────────────────── poll answered ──────────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HealthState = Literal["starting", "ready", "down"]


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """Health of one replica. Draining is the operator's decision and not part of it."""

    state: HealthState = "starting"
    reason: str = "not polled yet"
    """Why the replica is not ready, or why its last poll failed; empty after a good poll."""
    num_failures: int = 0
    """Consecutive failed polls."""

    @property
    def needs_warm_up(self) -> bool:
        """Whether the replica must answer a warm-up request before it takes traffic."""
        return self.state != "ready"

    def poll_answered(self) -> ReplicaHealth:
        """The health check passed. A replica that was not ready is warmed up next."""
        if self.state == "ready":
            return ReplicaHealth("ready", "")
        return ReplicaHealth("starting", "warming up", self.num_failures)

    def warm_up_succeeded(self) -> ReplicaHealth:
        """The warm-up passed, or is switched off."""
        return ReplicaHealth("ready", "")

    def poll_failed(self, reason: str, failures_before_down: int) -> ReplicaHealth:
        """The health check or the warm-up failed."""
        num_failures = self.num_failures + 1
        if num_failures >= failures_before_down or self.state == "down":
            return ReplicaHealth("down", reason, num_failures)
        return ReplicaHealth(self.state, reason, num_failures)
