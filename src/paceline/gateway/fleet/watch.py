"""Does a replica take traffic, by what the polls have said so far?

A decision: a value, and what follows from each answer. `fleet` asks, and warms up where this says
so.

    starting ──answers, warms up──▶ ready ──k polls missed──▶ down
        ▲  └──k polls missed──▶ down                            │
        └──────────────────── answers again ────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WatchState = Literal["starting", "ready", "down"]


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of one replica. Draining is the operator's word, not in here."""

    state: WatchState = "starting"
    reason: str = "not asked yet"
    """Why it is not ready, or what is amiss while it is; empty when all is well."""
    num_failures: int = 0
    """Polls without a good answer in a row."""

    @property
    def must_warm_up(self) -> bool:
        """Whether it has to prove itself before it takes traffic."""
        return self.state != "ready"

    def answered(self) -> Watch:
        """It is well. One that was not ready is now about to be warmed up."""
        if self.state == "ready":
            return Watch("ready", "")
        return Watch("starting", "warming up", self.num_failures)

    def warmed_up(self) -> Watch:
        """It has proved itself, or need not."""
        return Watch("ready", "")

    def failed(self, why: str, failures_before_down: int) -> Watch:
        """It did not answer, not well, or failed the warm-up."""
        num_failures = self.num_failures + 1
        if num_failures >= failures_before_down or self.state == "down":
            return Watch("down", why, num_failures)
        return Watch(self.state, why, num_failures)
