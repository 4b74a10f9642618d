"""`JsonLimits`: how much structure the JSON of a request body may have."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """Bounds over all levels of one body. They bound the time for which it is decoded and checked:
    about 50 ms for the worst body within the defaults."""

    max_depth: int = 64
    """Deepest nesting; tool schemas in use have about 20 levels."""
    max_keys: int = 20_000
    """Most object keys; a chat of 5,000 messages with content parts has as many."""
    max_containers: int = 20_000
    """Most objects and arrays. Each costs the decoder ten times the time of a number."""
    max_values: int = 262_144
    """Most values, objects and arrays included: a prompt of as many token ids is longer than the
    context of most models."""

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")


@functools.lru_cache(maxsize=8)
def limits_for(max_values: int) -> JsonLimits:
    """The limits with this many values. More values than by default mean more keys, objects and
    arrays in the same proportion: those of an agent with the tools of many servers.

    >>> limits_for(1024 * 1024).max_keys
    80000
    """
    least = JsonLimits()
    factor = max(max_values / least.max_values, 1.0)
    return JsonLimits(
        max_keys=int(least.max_keys * factor),
        max_containers=int(least.max_containers * factor),
        max_values=max_values,
    )
