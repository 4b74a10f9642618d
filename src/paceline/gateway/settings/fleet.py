"""How are remote replicas watched, and which are there from the start?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from paceline.gateway.settings.replica_entry import ReplicaEntry


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """What an operator may set about the replicas. Times are in seconds."""

    entries: tuple[ReplicaEntry, ...] = ()
    """Remote replicas; more can be added while the gateway runs."""
    poll_period_s: float = 2.0
    """A remote replica is asked this often whether it is well."""
    poll_timeout_s: float = 5.0
    """It must answer within this time."""
    failures_before_down: int = 3
    """It is down after as many polls in a row without a good answer. Requests do not wait for
    that: one that is refused goes elsewhere at once."""
    load_period_s: float = 5.0
    """The load of every replica, local or remote, is read this often."""
    dns_period_s: float = 10.0
    """DNS names are resolved again this often."""
    warm_up: bool = True
    """Whether a remote replica must answer a small request before it takes traffic."""
    warm_up_timeout_s: float = 120.0
    """It must have answered it within this time, its queue included."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name.endswith("_s") and not value > 0:
                raise ValueError(f"{setting.name} is {value}; it must be more than 0 seconds")
        if self.failures_before_down < 1:
            raise ValueError(
                f"failures_before_down is {self.failures_before_down}; it must be at least 1"
            )

        for what in ("label", "url", "dns"):
            given = Counter(getattr(entry, what) for entry in self.entries)
            twice = [value for value, times in given.items() if value is not None and times > 1]
            if twice:
                name = "name" if what == "label" else what
                raise ValueError(f"replicas has the {name} {twice[0]!r} twice; give it once")

    @property
    def load_age_max_s(self) -> float:
        """Older figures are no longer shown: three readings were missed, each for its timeout."""
        return 3 * (self.load_period_s + self.poll_timeout_s)
