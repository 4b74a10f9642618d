"""Phases of traffic, with the true acceptance of each class of requests.

These are true values: a policy sees only samples, the oracle reads the values themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lengths:
    """Whole numbers drawn uniformly from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"lengths {self.low}..{self.high} must satisfy 1 <= low <= high")

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2.0

    def mean_pieces(self, max_size: int) -> float:
        """Mean number of pieces of at most `max_size` that a number drawn here is divided into."""
        numbers = range(self.low, self.high + 1)
        return sum(-(-number // max_size) for number in numbers) / len(numbers)

    @property
    def mean_square(self) -> float:
        return ((self.high - self.low + 1) ** 2 - 1) / 12.0 + self.mean**2


@dataclass(frozen=True, slots=True)
class DraftTruth:
    """The true acceptance and offers of a drafter on one kind of text.

    Acceptance: `hazards[j-1]` = P(token j accepted | offered, j-1 accepted); the last one holds for
    all deeper positions. Requests differ: each has one standard normal z for its life, and its
    hazards are sigmoid(logit(hazard) + spread * z).

    Offers: the drafter has a match or has none, a two-state Markov chain over output tokens: with
    none, `match_start` is the chance of one at the next token; with one, `match_stay` that it
    lasts. With a match it offers all that is requested, otherwise nothing. A model always offers:
    1 and 1.
    """

    hazards: tuple[float, ...]
    spread: float = 0.0
    match_start: float = 1.0
    match_stay: float = 1.0

    def __post_init__(self) -> None:
        if not self.hazards or not all(0.0 <= hazard <= 1.0 for hazard in self.hazards):
            raise ValueError(
                f"hazards are {self.hazards}; each must be a probability, and there "
                "must be at least one"
            )
        if not self.spread >= 0.0:
            raise ValueError(f"spread is {self.spread}; it must not be negative")
        if not (0.0 <= self.match_start <= 1.0 and 0.0 <= self.match_stay <= 1.0):
            raise ValueError(
                f"match_start {self.match_start} and match_stay {self.match_stay} must be "
                "probabilities"
            )
        if self.match_start == 0.0 and self.match_stay == 1.0:
            raise ValueError("match_start 0 with match_stay 1 has no steady state; change one")

    @property
    def always_offers(self) -> bool:
        return self.match_start == 1.0 and self.match_stay == 1.0

    @property
    def match_memory(self) -> float:
        """Correlation of a match with one at the next token: the chain's second eigenvalue."""
        return self.match_stay - self.match_start

    @property
    def match_fraction(self) -> float:
        """The fraction of output tokens at which the drafter has a match."""
        return self.match_start / (1.0 - self.match_memory)

    def logits(self, num_positions: int) -> list[float]:
        """logit(hazard) for positions 1…num_positions; ±inf for certain ones."""
        padded = self.hazards + self.hazards[-1:] * num_positions
        return [_logit(hazard) for hazard in padded[:num_positions]]


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """Requests of one kind. If the next phase has a class of this name, its truth applies at once,
    also to requests under way; otherwise they keep theirs until they end."""

    name: str
    prompt_tokens: Lengths
    output_tokens: Lengths
    truth: DraftTruth
    weight: float = 1.0
    """Arrivals are of this class in proportion to it."""

    def __post_init__(self) -> None:
        if not self.weight > 0.0:
            raise ValueError(f"weight of class {self.name!r} is {self.weight}; it must be positive")


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Keeps `first` requests in the engine, each followed at once by the next; ramps to `last`."""

    first: int
    last: int | None = None
    hangs_up: bool = False
    """At the start of the phase, requests beyond `first` are cancelled, the youngest first; else
    they run to their end."""

    def __post_init__(self) -> None:
        if self.first < 0 or (self.last is not None and self.last < 0):
            raise ValueError(
                f"a closed loop of {self.first} to {self.last}; neither may be negative"
            )

    def concurrency(self, elapsed_fraction: float) -> int:
        """How many requests are to be in the engine at this point of the phase, 0 to 1."""
        last = self.first if self.last is None else self.last
        return round(self.first + (last - self.first) * min(elapsed_fraction, 1.0))


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Poisson arrivals, plus bursts of `burst_requests` requests at one instant each."""

    requests_per_s: float
    burst_requests: int = 0
    burst_period_s: float = 1.0

    def __post_init__(self) -> None:
        if not (self.requests_per_s >= 0.0 and self.burst_requests >= 0):
            raise ValueError("arrivals must not be negative")
        if not self.burst_period_s > 0.0:
            raise ValueError(f"burst_period_s is {self.burst_period_s}; it must be positive")


@dataclass(frozen=True, slots=True)
class TimedLoop:
    """Each of the phase's `requests` arrives at its own time."""


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """One request of a phase that names its requests."""

    arrived_s: float
    """From the start of the phase; read under a `TimedLoop` only."""
    class_name: str
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if min(self.prompt_tokens, self.output_tokens) < 1 or not self.arrived_s >= 0.0:
            raise ValueError(
                f"a request of {self.prompt_tokens} and {self.output_tokens} tokens at "
                f"{self.arrived_s} s; both must be at least 1, and the time not negative"
            )


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of traffic in which only chance varies, and the concurrency if it ramps. Its length
    is given in virtual seconds or, for closed loops without a ramp only, in engine steps or in
    output tokens.
    """

    name: str
    load: ClosedLoop | OpenLoop | TimedLoop
    classes: tuple[TrafficClass, ...]
    duration_s: float | None = None
    num_steps: int | None = None
    output_tokens: int | None = None
    """The phase ends when the answers that ended in it hold this many tokens."""
    requests: tuple[TimedRequest, ...] = ()
    """The requests, in order of their arrival and again from the first after the last. Where there
    are none, they are drawn from the classes."""

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError(f"phase {self.name!r} has no traffic class; it needs at least one")
        names = [kind.name for kind in self.classes]
        if len(set(names)) != len(names):
            raise ValueError(f"phase {self.name!r} has the classes {names}; each may occur once")
        ends = (self.duration_s, self.num_steps, self.output_tokens)
        if sum(end is not None for end in ends) != 1:
            raise ValueError(
                f"phase {self.name!r} needs duration_s or num_steps or output_tokens, and only one"
            )
        unknown = {request.class_name for request in self.requests} - set(names)
        if unknown:
            raise ValueError(
                f"phase {self.name!r} has a request of class {min(unknown)!r}, which is none of "
                f"its classes, {names}"
            )
        if isinstance(self.load, TimedLoop):
            times_s = [request.arrived_s for request in self.requests]
            if not times_s or times_s != sorted(times_s):
                raise ValueError(
                    f"phase {self.name!r} has a TimedLoop; it needs requests, in order of arrival"
                )
        is_steady = isinstance(self.load, ClosedLoop) and self.load.last is None
        if self.duration_s is None and not is_steady:
            raise ValueError(f"phase {self.name!r} is not a steady closed loop; give duration_s")


def _logit(chance: float) -> float:
    if chance <= 0.0:
        return -math.inf
    return math.inf if chance >= 1.0 else math.log(chance / (1.0 - chance))
