"""Settings of the fleet: the configured remote replicas and how they are polled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from paceline.runtime.gateway.settings.replica_entry import ReplicaEntry

MAX_REPLICAS = 512
"""Remote replicas and DNS names together. All of them are polled, are in the metrics, and in each
message to a worker. Chosen empirically, far above fleets in use."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Settings of the replicas. Times are in seconds."""

    entries: tuple[ReplicaEntry, ...] = ()
    """Remote replicas; more can be added while the gateway runs."""
    poll_period_s: float = 2.0
    """Time between two health polls of a remote replica."""
    poll_timeout_s: float = 5.0
    """Time limit for one poll, one reading of the load, and one DNS resolution."""
    failures_before_down: int = 3
    """Consecutive failed polls after which a replica is down. Requests do not wait for that: a
    request whose connection is refused is sent to another replica at once."""
    load_period_s: float = 5.0
    """Time between two readings of a replica's load, local or remote."""
    dns_period_s: float = 10.0
    """Time between two resolutions of a DNS name."""
    warm_up: bool = True
    """Whether a remote replica must answer a small request before it takes traffic."""
    warm_up_timeout_s: float = 120.0
    """Time limit for the warm-up request, the wait in the replica's own queue included."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name.endswith("_s") and not value > 0:
                raise ValueError(f"{setting.name} is {value}; it must be more than 0 seconds")
        if self.failures_before_down < 1:
            raise ValueError(
                f"failures_before_down is {self.failures_before_down}; it must be at least 1"
            )
        if len(self.entries) > MAX_REPLICAS:
            raise ValueError(
                f"replicas has {len(self.entries)} entries; it may have at most {MAX_REPLICAS}"
            )
        for field_name in ("label", "url", "dns"):
            counts = Counter(getattr(entry, field_name) for entry in self.entries)
            repeated = [value for value, count in counts.items() if value is not None and count > 1]
            if repeated:
                name = "name" if field_name == "label" else field_name
                raise ValueError(
                    f"replicas lists the {name} {repeated[0]!r} twice; each may occur once"
                )

    @property
    def load_age_max_s(self) -> float:
        """Age after which a load is no longer used: three readings were missed, each for its
        timeout."""
        return 3 * (self.load_period_s + self.poll_timeout_s)
