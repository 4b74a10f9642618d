"""A shifting-acceptance trace as values: categories of requests, and phases that mix them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Whole numbers drawn uniformly from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"{self.low} to {self.high} tokens must satisfy 1 <= low <= high")


@dataclass(frozen=True, slots=True)
class TextSource:
    """The prompts of a category when an engine is driven by text."""

    workload: str
    """A built-in workload whose prompts have a single turn."""
    temperature: float | None = None
    """None: the workload's own."""
    max_tokens: int | None = None
    """None: the prompts' own limits."""


@dataclass(frozen=True, slots=True)
class Script:
    """The known truth of a category when acceptance is scripted."""

    acceptance: tuple[float, ...]
    """Entry j: the probability that draft token j + 1 is accepted, given that the ones before it
    were. The last entry holds for all deeper positions."""
    prompt_tokens: TokenRange
    output_tokens: TokenRange

    def __post_init__(self) -> None:
        if not self.acceptance or not all(0.0 <= chance <= 1.0 for chance in self.acceptance):
            raise ValueError(
                f"acceptance is {list(self.acceptance)}; it must be a non-empty list of "
                "probabilities from 0 to 1"
            )

    def survival(self, depth: int) -> tuple[float, ...]:
        """Entry j: the probability that draft tokens 1 to j + 1 are all accepted, (depth,).

        This is the form of vLLM's `synthetic_acceptance_rates`.

        >>> script = Script((0.5, 0.8), TokenRange(1, 1), TokenRange(1, 1))
        >>> [round(chance, 3) for chance in script.survival(3)]
        [0.5, 0.4, 0.32]
        """
        chances, product = [], 1.0
        for position in range(depth):
            product *= self.acceptance[min(position, len(self.acceptance) - 1)]
            chances.append(product)
        return tuple(chances)


@dataclass(frozen=True, slots=True)
class Category:
    """Requests of one kind: how they read as text, and how drafts of them are accepted."""

    name: str
    text: TextSource | None = None
    script: Script | None = None

    def __post_init__(self) -> None:
        if self.text is None and self.script is None:
            raise ValueError("give text, scripted or both")


@dataclass(frozen=True, slots=True)
class TracePhase:
    """A stretch of traffic in which neither the load nor the mix of categories changes."""

    name: str
    mix: tuple[tuple[str, float], ...]
    """Categories and their weights: requests are of a category in proportion to its weight."""
    concurrency: int | None = None
    """Closed loop: requests in flight at all times, those of the phase before included."""
    rate_per_s: float | None = None
    """Open loop: Poisson arrivals at this rate."""
    duration_s: float | None = None
    output_tokens: int | None = None
    """The phase ends when the answers that ended in it hold this many tokens."""

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ValueError("give either concurrency (closed loop) or rate_per_s (open loop)")
        if (self.duration_s is None) == (self.output_tokens is None):
            raise ValueError("give either duration_s or output_tokens, which ends the phase")
        if self.output_tokens is not None and self.concurrency is None:
            raise ValueError("output_tokens ends closed loops only; give duration_s")
        for name in ("concurrency", "rate_per_s", "duration_s", "output_tokens"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}; it must be a finite number above 0")
        if not self.mix or not all(weight > 0 for _, weight in self.mix):
            raise ValueError("mix must name at least one category, each with a weight above 0")

    def scaled(self, load: float, time: float) -> TracePhase:
        """The phase with `load` times the load, and `time` times as long."""
        return replace(
            self,
            concurrency=(
                None if self.concurrency is None else max(1, round(self.concurrency * load))
            ),
            rate_per_s=None if self.rate_per_s is None else self.rate_per_s * load,
            duration_s=None if self.duration_s is None else self.duration_s * time,
            output_tokens=(
                None if self.output_tokens is None else max(1, round(self.output_tokens * time))
            ),
        )


@dataclass(frozen=True, slots=True)
class ShiftingTrace:
    """A whole trace."""

    name: str
    description: str
    categories: tuple[Category, ...]
    phases: tuple[TracePhase, ...]

    def __post_init__(self) -> None:
        known = [category.name for category in self.categories]
        names = [phase.name for phase in self.phases]
        if not names:
            raise ValueError("phases is empty; a trace needs at least one phase")
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise ValueError(f"two phases have the name {repeated!r}; each needs its own")
        for phase in self.phases:
            strange = [name for name, _ in phase.mix if name not in known]
            if strange:
                raise ValueError(
                    f"phase {phase.name!r} mixes the category {strange[0]!r}; the trace has "
                    f"{', '.join(known)}"
                )

    @property
    def by_name(self) -> Mapping[str, Category]:
        """The categories by name."""
        return {category.name: category for category in self.categories}

    @property
    def sha256(self) -> str:
        """Hash of everything that decides what is sent: two equal ones are the same traffic.

        Fields that are not given are left out, so that a new optional field changes no hash.
        """
        content = asdict(replace(self, name="", description=""), dict_factory=_given)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def scaled(self, *, load: float = 1.0, time: float = 1.0) -> ShiftingTrace:
        """The trace with `load` times the load, and phases that are `time` times as long."""
        return replace(self, phases=tuple(phase.scaled(load, time) for phase in self.phases))

    def script(self, category: str) -> Script:
        """The script of a category; ValueError if it has none."""
        found = self.by_name[category].script
        if found is None:
            raise ValueError(
                f"category {category!r} of trace {self.name!r} has no scripted acceptance; give "
                "it scripted, or drive the engine by text"
            )
        return found

    def text(self, category: str) -> TextSource:
        """The prompts of a category; ValueError if it has none."""
        found = self.by_name[category].text
        if found is None:
            raise ValueError(
                f"category {category!r} of trace {self.name!r} has no text; give it text, or drive "
                "the engine by scripted acceptance"
            )
        return found


def _given(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}
