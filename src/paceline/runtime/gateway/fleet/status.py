"""Values that describe each replica and DNS entry at one moment, for operators and routing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from paceline.runtime.gateway.fleet.load import ReplicaLoad
from paceline.runtime.gateway.fleet.speculation import Speculation
from paceline.runtime.gateway.fleet.token_counters import TokenCounters, TokenRates, rates_between
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.signals import ReplicaSignals

Origin = Literal["local", "url", "dns"]
"""An engine on this machine, an entry with a URL, or an address of a DNS entry."""


@dataclass(frozen=True, slots=True)
class LoadReading:
    """The last load that could be read, and why there is no newer one."""

    load: ReplicaLoad | None = None
    read_at_s: float = 0.0
    """Monotonic clock."""
    failure: str = "not read yet"
    """Empty when the last attempt succeeded."""
    speculation: Speculation = field(default_factory=Speculation)
    """What the replica's metrics say about its speculation."""
    counters: TokenCounters | None = None
    """None before the first reading."""
    rates: TokenRates = field(default_factory=TokenRates)
    """Over the time between the last two readings."""
    revision: str | None = None
    """Which revision of the model its metrics name."""

    def followed_by(self, newer: LoadReading) -> LoadReading:
        """The newer reading, with the rates and the number of changes since this one."""
        newer = replace(newer, load=_count_change(self.load, newer.load))
        if self.counters is None or newer.counters is None:
            return newer
        return replace(newer, rates=rates_between(self.counters, newer.counters, self.rates))

    def failed(self, reason: str) -> LoadReading:
        """The same load, marked as not updated."""
        return replace(self, failure=reason)

    def current(self, now_s: float, max_age_s: float) -> ReplicaLoad | None:
        """The load, or None when it is older than `max_age_s`."""
        return self.load if now_s - self.read_at_s <= max_age_s else None

    def signals(self, now_s: float, max_age_s: float) -> ReplicaSignals | None:
        """What routing may use, or None when it is older than `max_age_s`."""
        load = self.current(now_s, max_age_s)
        if load is None:
            return None
        return ReplicaSignals(
            num_running=load.num_running,
            num_waiting=load.num_waiting,
            kv_usage_fraction=load.kv_usage_fraction,
            accepted_fraction=self.rates.accepted_fraction,
            seconds_per_token=self.rates.seconds_per_token,
        )


def _count_change(before: ReplicaLoad | None, now: ReplicaLoad | None) -> ReplicaLoad | None:
    if now is None or now.activity is None:
        return now
    num_before = (before.num_activity_changes or 0) if before is not None else 0
    has_changed = before is not None and before.activity not in (None, now.activity)
    return replace(now, num_activity_changes=num_before + has_changed)


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica."""

    replica: Replica
    origin: Origin
    entry: str | None
    """Name of the configuration entry it comes from; None for a local engine."""
    reason: str
    """Why the replica is in its state; may be empty."""
    is_draining: bool
    """Whether an operator has taken it out of service."""
    is_leaving: bool
    """Whether it is removed once its requests have ended."""
    polled_at_s: float | None
    """Time of the last poll on the monotonic clock; None for local engines and before the first."""
    load: LoadReading


@dataclass(frozen=True, slots=True)
class DnsEntryStatus:
    """One DNS name whose addresses are replicas."""

    name: str
    dns: str
    """host:port."""
    addresses: tuple[str, ...]
    failure: str
    """Why the last resolution failed; empty when it succeeded."""
    is_draining: bool
