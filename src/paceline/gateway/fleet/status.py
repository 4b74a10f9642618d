"""What is known of each replica at this moment, for operators and for routing? Values only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from paceline.gateway.fleet.load import ReplicaLoad
from paceline.gateway.replicas import Replica

Origin = Literal["local", "url", "dns"]
"""An engine of this machine, an entry with a URL, or an address behind a DNS name."""


@dataclass(frozen=True, slots=True)
class LoadReading:
    """The last load that could be read, and why there is no newer one."""

    load: ReplicaLoad | None = None
    read_at_s: float = 0.0
    failure: str = "not read yet"
    """Empty when the last reading was one."""

    def failed(self, why: str) -> LoadReading:
        return replace(self, failure=why)

    def current(self, now_s: float, max_age_s: float) -> ReplicaLoad | None:
        """The load, unless it is too old to mean anything."""
        return self.load if now_s - self.read_at_s <= max_age_s else None


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica."""

    replica: Replica
    origin: Origin
    entry: str | None
    """The name of the entry that it comes from; None for a local engine."""
    reason: str
    """Why it is in its state; empty when there is nothing to say."""
    is_draining: bool
    """Whether an operator has taken it out of service."""
    is_leaving: bool
    """Whether it is removed once its requests have ended."""
    polled_at_s: float | None
    """When it was last asked, by the monotonic clock; None for local engines and before that."""
    load: LoadReading


@dataclass(frozen=True, slots=True)
class NameStatus:
    """One DNS name of which every address is a replica."""

    name: str
    dns: str
    addresses: tuple[str, ...]
    failure: str
    """Why it could not be resolved the last time; empty when it was."""
    is_draining: bool
