"""The tiers: a load and the limits that a deployment must keep under it, as data with sources."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec


@dataclass(frozen=True, slots=True)
class Tier:
    """The load and the limits of one tier."""

    name: str
    summary: str
    concurrency: int
    """Requests in flight of the load, closed loop."""
    num_requests: int
    max_tokens: int
    """Of each answer."""
    ttft_p99_ms: float
    tpot_p99_ms: float
    min_acceptance_fraction: float
    """Of drafted tokens, where the server drafts."""
    source: str
    """Where the limits come from."""

    @property
    def longest_load_s(self) -> float:
        """How long the load takes if every request is as slow as the limits allow."""
        return math.ceil(self.num_requests / self.concurrency) * self.longest_request_s

    @property
    def longest_request_s(self) -> float:
        """How long one request of the load takes at the limits."""
        return (self.ttft_p99_ms + (self.max_tokens - 1) * self.tpot_p99_ms) / 1e3

    def __post_init__(self) -> None:
        for name in ("concurrency", "num_requests", "max_tokens", "ttft_p99_ms", "tpot_p99_ms"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} of tier {self.name} must be above 0")
        if not 0 <= self.min_acceptance_fraction <= 1:
            raise ValueError(f"min_acceptance_fraction of tier {self.name} must be within 0 and 1")


@cache
def tiers() -> dict[str, Tier]:
    """All tiers by name, the smallest first."""
    data = (
        resources.files("paceline.operations.validate").joinpath("data", "tiers.json").read_bytes()
    )
    return {tier.name: tier for tier in msgspec.json.decode(data, type=tuple[Tier, ...])}
