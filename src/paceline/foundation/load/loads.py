"""The kinds of load: how many requests, when. Values only; `arrivals` computes schedules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A fixed number of requests in flight: the next is due when one has ended."""

    concurrency: int

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"concurrency is {self.concurrency}; it must be at least 1")


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Random arrivals at a mean rate, whatever the server does.

    The gaps between arrivals are gamma-distributed with shape `burstiness`: 1 gives a Poisson
    process, less gives bursts (coefficient of variation 1 / sqrt(burstiness)), more gives even
    gaps. vLLM's benchmark uses the same name with the same meaning.
    """

    rate_per_s: float
    burstiness: float = 1.0
    final_rate_per_s: float | None = None
    """The rate changes linearly from `rate_per_s` to this over the duration; None: it stays."""
    max_in_flight: int | None = None
    """Requests beyond wait in the load generator; their wait counts in every latency."""

    def __post_init__(self) -> None:
        for name in ("rate_per_s", "burstiness", "final_rate_per_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}; it must be above 0")
        _check_max_in_flight(self.max_in_flight)


@dataclass(frozen=True, slots=True)
class RecordedArrivals:
    """The times of a trace: each request says when it is due."""

    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        _check_max_in_flight(self.max_in_flight)


Load = ClosedLoop | OpenLoop | RecordedArrivals


def describe_load(load: Load) -> str:
    """One line for people."""
    if isinstance(load, ClosedLoop):
        return f"closed loop, {load.concurrency} in flight"
    if isinstance(load, RecordedArrivals):
        text = "open loop, at the times of the trace"
    else:
        text = f"open loop, {load.rate_per_s:g} requests/s"
        if load.final_rate_per_s is not None:
            text += f" rising to {load.final_rate_per_s:g}"
            if load.final_rate_per_s < load.rate_per_s:
                text = text.replace("rising", "falling")
        if load.burstiness != 1.0:
            text += f", burstiness {load.burstiness:g}"
    if load.max_in_flight is not None:
        text += f", at most {load.max_in_flight} in flight"
    return text


def _check_max_in_flight(max_in_flight: int | None) -> None:
    if max_in_flight is not None and max_in_flight < 1:
        raise ValueError(f"max_in_flight is {max_in_flight}; it must be at least 1")
