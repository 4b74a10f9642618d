"""How does the gateway deal with replicas that fail?

A value: the breaker's thresholds, how often a request is tried again, and when a silent replica is
taken for hung. The deadlines of a single attempt are in `settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

PROGRESS_TOKENS = 16
"""A request that kills engines mostly does so at the same place again; a stream that gets on is
only unlucky, as a long one is while replica after replica is replaced. Chosen by hand."""
IN_ALL_FACTOR = 4
"""Times `max_continuations`, counted or not, a stream is left to end: its engines may die of it all
the same, later each time. Chosen by hand."""


@dataclass(frozen=True, slots=True)
class FailureSettings:
    """Times in seconds, fractions between 0 and 1."""

    window_s: float = 30.0
    """A replica's failure rate is taken over this time."""
    min_samples: int = 10
    """With fewer ended attempts than this in the window, the rate ejects nobody. Of ten attempts
    on a replica that fails one in ten, half fail by chance once in 600 times (binomial)."""
    max_failure_fraction: float = 0.5
    """A replica that fails this share of its attempts, or more, takes no new ones for a while."""
    open_s: float = 1.0
    """How long the first time: enough for a connection reset by chance to be over. It doubles with
    each failure after that, …"""
    max_open_s: float = 30.0
    """… up to this: a replica that is well again is noticed within half a minute."""
    probe_timeout_s: float = 30.0
    """A trial request that has neither answered nor ended for so long no longer keeps the next
    one out: without streaming, an answer may take minutes."""

    max_attempts: int = 3
    """Most attempts for one request before its first byte. Also the most engines that a request
    which kills engines before it can take with it."""
    max_continuations: int = 3
    """Most times in a row that another replica continues a stream and brings it forward by fewer
    than `PROGRESS_TOKENS` tokens; in all, `IN_ALL_FACTOR` times as many."""
    retry_fraction: float = 0.2
    """Retries may add this share to the requests of the last 10 s (Finagle's default), …"""
    retry_reserve: int = 256
    """… and this many more, whatever the traffic. It is what one replica holds when it dies, so
    that none of its requests is lost: at least the largest `max_in_flight` of a replica."""
    continuation_fraction: float = 1.0
    """The same for streams that have begun. What they have received is lost without it, …"""
    continuation_reserve: int = 1024
    """… hence more than for retries: four replicas' worth of streams within 10 s."""
    replica_wait_s: float = 10.0
    """When no replica can take a request that failed, it waits for one for so long."""

    silence_s: float = 30.0
    """A replica whose only stream brings nothing for so long may be hung; with three streams or
    more it takes a third of it. Rises with the silences that the replica usually has."""
    first_silence_s: float = 60.0
    """The same while no stream has begun: prompts are being computed, which brings no bytes."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_s") and not value > 0:
                raise ValueError(f"{field.name} is {value}; it must be more than 0 seconds")
            if field.name.endswith("_fraction") and not 0 <= value <= 1:
                raise ValueError(f"{field.name} is {value}; allowed are 0 to 1")
            if field.name.endswith("_reserve") and value < 0:
                raise ValueError(f"{field.name} is {value}; it must be at least 0")
        if self.min_samples < 1:
            raise ValueError(f"min_samples is {self.min_samples}; it must be at least 1")
        if self.max_failure_fraction == 0:
            raise ValueError("max_failure_fraction is 0; a replica without failures would be out")
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts is {self.max_attempts}; 1 tries once and never again")
        if self.max_continuations < 0:
            raise ValueError(f"max_continuations is {self.max_continuations}; 0 continues nothing")
        if self.max_open_s < self.open_s:
            raise ValueError(
                f"max_open_s is {self.max_open_s}; it must be at least open_s, {self.open_s}"
            )
