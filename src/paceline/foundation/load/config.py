"""The settings of one benchmark run, and the address of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yarl import URL

from paceline.foundation.load.loads import ClosedLoop, Load, OpenLoop, RecordedArrivals
from paceline.foundation.load.phase_file import PhaseConfig
from paceline.foundation.results.adaptation import AdaptationRule
from paceline.foundation.results.slo import Slo
from paceline.foundation.workloads import SyntheticLengths, load_workload


class BenchError(Exception):
    """The run cannot take place. The message says why."""


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """How a trace was read, for the report."""

    form: str | None
    """The public trace whose form it has; None for any other."""
    time_unit: str | None
    """`s`, `ms`, `us`, `ns` or `date`; None for a trace without times."""
    duration_s: float
    """Between its first and its last time, as recorded."""
    num_requests: int
    """Later turns of sessions included."""
    num_sessions: int
    num_left_out: int
    """Records without input or without output tokens."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The settings of one run, as the report shows them under `config`."""

    url: str
    admin_url: str | None = None
    model: str | None = None
    """None: the first model that the server lists."""
    workload: str | None = None
    """None: one that suits the served model, if no file has the prompts."""
    workload_reason: str | None = None
    """Why that workload was chosen; None if it was given."""
    prompts_file: str | None = None
    """Replaces the workload's prompts."""
    synthetic: SyntheticLengths | None = None
    """Prompts and answers of these lengths, in place of a workload."""
    system_prompt_file: str | None = None
    """Its text precedes every prompt."""
    temperature: float | None = None
    """None: the workload's own temperature."""
    top_p: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    num_requests: int | None = None
    duration_s: float | None = None
    concurrency: int | None = 1
    """Closed loop; None for any other load."""
    rate_per_s: float | None = None
    """Open loop; None for any other load."""
    burstiness: float = 1.0
    """Shape of the gamma-distributed gaps of the open loop; 1 is Poisson, less is burstier."""
    final_rate_per_s: float | None = None
    """The open loop's rate at the end of the duration; None: it does not change."""
    trace_file: str | None = None
    """A trace that says what is sent and when."""
    trace_speed: float = 1.0
    """The times of the trace are divided by it."""
    trace_unit: str | None = None
    """Of times that are numbers: s, ms, us or ns; None: what the form of the trace states."""
    trace_block_tokens: int | None = None
    """Tokens that each of `hash_ids` stands for; None: what the form of the trace states."""
    trace: TraceFacts | None = None
    """How the trace was read; None until it is."""
    phases: tuple[PhaseConfig, ...] = ()
    """Phases in turn, each with its own load and workload."""
    max_in_flight: int | None = None
    """Bound on the requests in flight of an open loop or trace; the wait counts in latencies."""
    num_warmup: int = 0
    repeats: int = 1
    """How often the measurement is made. Prompts continue where the repeat before stopped."""
    slo: Slo | None = None
    adaptation: AdaptationRule = field(default_factory=AdaptationRule)
    timeout_s: float = 600.0
    max_dispatch_delay_ms: float = 25.0
    """Chosen empirically: a quarter of the 100 ms at which people notice a delay."""

    def __post_init__(self) -> None:
        loads = [self.concurrency, self.rate_per_s, self.phases or None]
        given = sum(load is not None for load in loads)
        if (
            given > 1
            or (self.trace_file is None and not given)
            or (self.trace_file and self.phases)
        ):
            raise ValueError(
                "give either a concurrency (closed loop), a rate (open loop), a trace or phases"
            )
        has_end = self.num_requests is not None or self.duration_s is not None
        if not (has_end or self.trace_file or self.phases):
            raise ValueError("give a number of requests or a duration, so that the run ends")
        if self.phases and has_end:
            raise ValueError("phases have durations of their own; give no other bound")
        if self.final_rate_per_s is not None and (
            self.rate_per_s is None or self.duration_s is None
        ):
            raise ValueError("a rate that changes needs a first rate and a duration")
        if self.repeats < 1:
            raise ValueError(f"repeats is {self.repeats}; it must be at least 1")

    @property
    def effective_temperature(self) -> float:
        """The temperature of the requests; a user's own prompts are greedy by default."""
        if self.temperature is not None:
            return self.temperature
        if self.prompts_file or self.trace_file or self.synthetic:
            return 0.0
        return 0.0 if self.workload is None else load_workload(self.workload).temperature

    @property
    def load(self) -> Load:
        """The load of a run without phases."""
        if self.rate_per_s is not None:
            return OpenLoop(
                self.rate_per_s, self.burstiness, self.final_rate_per_s, self.max_in_flight
            )
        if self.trace_file is not None and self.concurrency is None:
            return RecordedArrivals(self.max_in_flight)
        return ClosedLoop(self.concurrency or 1)

    @property
    def workload_label(self) -> str:
        """Where the requests of a run without phases come from, for people."""
        if self.synthetic is not None:
            return self.synthetic.label
        file = self.trace_file or self.prompts_file
        return Path(file).name if file else self.workload or "suited to the model"

    @property
    def needs_workload(self) -> bool:
        """Whether the prompts are still to be chosen."""
        given = self.prompts_file or self.trace_file or self.phases or self.synthetic
        return self.workload is None and not given


def parse_server_url(url: str) -> URL:
    """The server's address, given with or without the /v1 of the OpenAI API."""
    try:
        address = URL(url)
    except ValueError as error:
        raise BenchError(f"URL is {url!r}: {error}") from error
    if address.scheme not in ("http", "https") or not address.host:
        raise BenchError(f"URL is {url!r}; it must look like http://127.0.0.1:8000")
    path = address.path.rstrip("/").removesuffix("/v1")
    if path:
        raise BenchError(f"URL is {url!r}; its path must be empty or /v1")
    return address.origin()
