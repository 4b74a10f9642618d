"""What a replay is asked for, and what it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.foundation.planning.values import PlanError

DEFAULT_SECONDS = 60.0
DEFAULT_REPLICATES = 20
MIN_REPLICATES = 5
COVERAGE = 0.9
"""Of the intervals."""
MIN_BLOCKS = 2
"""Blocks with clean steps that an interval needs: one does not show how the machine's speed
varies."""


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """The arrivals of the recording, in 1 / `factor` of its time."""

    factor: float = 1.0

    def __str__(self) -> str:
        return "as recorded" if self.factor == 1.0 else f"{self.factor:g} times the recorded rate"


@dataclass(frozen=True, slots=True)
class ConstantConcurrency:
    """Always this many requests of the recorded kinds in the engine."""

    num_requests: int

    def __str__(self) -> str:
        return f"{self.num_requests} requests at a time"


Load = RecordedLoad | ConstantConcurrency


def parse_load(text: str | None, requests_per_s: float, num_clients: int | None = None) -> Load:
    """Read a load: `recorded`, `2x`, `12/s` or `closed:32`. Raises `PlanError` for anything else.

    `requests_per_s` is the recorded rate; `num_clients` are those of a recorded closed loop, which
    is replayed if `text` is None.

    >>> parse_load(None, 3.0), parse_load(None, 3.0, num_clients=8)
    (RecordedLoad(factor=1.0), ConstantConcurrency(num_requests=8))
    >>> parse_load("2x", 3.0)
    RecordedLoad(factor=2.0)
    >>> parse_load("12/s", 3.0)
    RecordedLoad(factor=4.0)
    >>> parse_load("closed:32", 3.0)
    ConstantConcurrency(num_requests=32)
    """
    wrong = PlanError(
        f"--load is {text!r}; it must be recorded, a factor such as 2x, a rate such as 12/s, or "
        "a number of requests at a time such as closed:32"
    )
    if text is None:
        return RecordedLoad() if num_clients is None else ConstantConcurrency(num_clients)
    if text == "recorded":
        return RecordedLoad()
    kind, _, count = text.partition(":")
    if kind == "closed":
        if not count.isdigit() or not 1 <= int(count) <= 100_000:
            raise wrong
        return ConstantConcurrency(int(count))
    number, unit = (text[:-1], "x") if text.endswith("x") else (text.removesuffix("/s"), "/s")
    if not text.endswith(unit):
        raise wrong
    try:
        value = float(number)
    except ValueError:
        raise wrong from None
    factor = value if unit == "x" else value / requests_per_s if requests_per_s else 0.0
    if not 1e-3 <= factor <= 1e3:
        raise PlanError(
            f"--load {text} is {factor:g} times the recorded rate of {requests_per_s:.3g} "
            "requests/s; it must be from 0.001 to 1000 times"
        )
    return RecordedLoad(factor)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted figure with its interval of `COVERAGE`."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The figures of one replica under the setting."""

    figures: Mapping[str, Estimate | None]
    """By name; None where no replicate has the figure."""
    num_replicates: int
    simulated_s: float
    """Virtual seconds of each replicate that count."""
    has_intervals: bool
    """False where the recording is too short for them; `low` and `high` then mean nothing."""
    warnings: tuple[str, ...]


FIGURES = {
    "output_tokens_per_s": "output tokens/s",
    "ttft_p50_ms": "TTFT p50, ms",
    "ttft_p90_ms": "TTFT p90, ms",
    "tpot_mean_ms": "TPOT mean, ms",
    "tpot_p90_ms": "TPOT p90, ms",
    "tokens_per_step": "tokens per request and step",
    "draft_length": "draft length, mean",
    "usd_per_million_output_tokens": "USD per 1M output tokens",
}
"""The figures, with their names in the report."""
