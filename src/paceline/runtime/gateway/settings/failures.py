"""`FailureSettings`: thresholds of circuit breakers, limits of retries, and stall detection.

The time limits of a single attempt are in `GatewaySettings`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class FailureSettings:
    """Times in seconds, fractions between 0 and 1."""

    window_s: float = 30.0
    """Window of a replica's failure rate."""
    min_samples: int = 10
    """The failure rate opens the breaker only with at least this many ended attempts in the window.
    Of ten attempts on a replica that fails one in ten, half fail by chance once in 600 times
    (binomial)."""
    max_failure_fraction: float = 0.5
    """The breaker of a replica that fails at least this share of its attempts opens."""
    open_s: float = 1.0
    """How long a breaker first stays open, long enough for an isolated connection reset to pass.
    The time doubles with each further failure, up to `max_open_s`."""
    max_open_s: float = 30.0
    """Longest time a breaker stays open: a recovered replica is noticed within half a minute."""
    probe_timeout_s: float = 30.0
    """A half-open breaker admits another trial request when the last one has had no answer for this
    long: without streaming, an answer may take minutes."""

    max_attempts: int = 3
    """Most attempts for one request before its first byte."""
    max_continuations: int = 12
    """Most continuations of one stream. A proxy that cuts connections after a minute then allows
    streams of some ten minutes."""
    max_replica_deaths: int = 2
    """A request under which this many replicas have ended or hung, at once or a moment after they
    failed it, is given up, however many tokens came between: it is likely to be the cause, and
    would end all others too."""
    retry_fraction: float = 0.2
    """Retries may add this share to the requests of the last 10 s (Finagle's default)."""
    retry_reserve: int = 256
    """Retries allowed in addition, whatever the traffic. Set it to at least the largest
    `max_in_flight` of a replica: then no request is lost when one replica dies."""
    continuation_fraction: float = 1.0
    """Like `retry_fraction`, for continuations of streams that have begun."""
    continuation_reserve: int = 1024
    """Like `retry_reserve`, for continuations: the streams of four replicas within 10 s. It is
    larger, because a stream that is not continued loses what the client has received."""
    replica_wait_s: float = 10.0
    """How long a failed request waits for a replica that can take it."""

    silence_s: float = 30.0
    """A replica whose only stream is silent for this long counts as hung; with three or more
    streams a third of it is enough. The limit rises with the replica's usual pauses."""
    first_silence_s: float = 60.0
    """Like `silence_s`, while no stream has begun: a replica sends no bytes during prefill."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_s") and not value > 0:
                raise ValueError(f"{field.name} is {value}; it must be more than 0 seconds")
            if field.name.endswith("_fraction") and not 0 <= value <= 1:
                raise ValueError(f"{field.name} is {value}; it must be from 0 to 1")
            if field.name.endswith("_reserve") and value < 0:
                raise ValueError(f"{field.name} is {value}; it must be at least 0")
        if self.min_samples < 1:
            raise ValueError(f"min_samples is {self.min_samples}; it must be at least 1")
        if self.max_failure_fraction == 0:
            raise ValueError(
                "max_failure_fraction is 0; it must be more than 0, or a replica without failures "
                "would be excluded"
            )
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts is {self.max_attempts}; it must be at least 1")
        if self.max_replica_deaths < 1:
            raise ValueError(
                f"max_replica_deaths is {self.max_replica_deaths}; it must be at least 1"
            )
        if self.max_continuations < 0:
            raise ValueError(
                f"max_continuations is {self.max_continuations}; it must be at least 0"
            )
        if self.max_open_s < self.open_s:
            raise ValueError(
                f"max_open_s is {self.max_open_s}; it must be at least open_s, {self.open_s}"
            )
