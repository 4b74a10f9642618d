"""The values of the live view: one `Snapshot` per second, and the events between two of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GovernorView:
    """What the governor of a replica reported; None for a figure that it does not report."""

    policy: str | None = None
    settled_length: int | None = None
    """Draft length after its last change; a length that is only tried does not count."""
    ceiling: int | None = None
    reason: str | None = None
    """Why it planned the length of the last step."""
    uses_static_setting: bool = False
    """Whether the last step ran with the engine's static setting instead of a plan."""
    num_changes: int = 0
    """Changes of the draft length since the engine started."""
    change_reason: str | None = None
    """Of the last change."""
    num_steps: int | None = None
    num_drafts: int = 0
    accepted_per_position: tuple[int, ...] = ()
    """Drafts since the start of which the token at each position was accepted, first to last."""
    num_shifts: int = 0
    """Shifts of acceptance that the watch for drift has found."""
    forecast_step_s: tuple[float, ...] = ()
    """Expected time of a step at each draft length from 0 on, at the load of the last plan."""
    step_slowdown: float | None = None
    """Time of recent steps over that by the table of costs measured at the engine's start."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica at one moment; None for what is unknown."""

    name: str
    state: str
    reason: str
    """Why it is in this state; may be empty."""
    breaker: str
    """closed, half_open or open."""
    model: str = ""
    draft: str | None = None
    """What drafts for it."""
    num_in_flight: int = 0
    num_running: int | None = None
    """Sequences that the engine computes, by its own metrics."""
    num_waiting: int | None = None
    """Sequences in the engine's own queue."""
    kv_usage_fraction: float | None = None
    num_restarts: int | None = None
    num_planned_restarts: int = 0
    """Of `num_restarts`."""
    draft_length: int | None = None
    """Of the last plan, probes included."""
    accepted_fraction: float | None = None
    """Recent accepted draft tokens over draft tokens."""
    tokens_per_s: float | None = None
    """Goodput: output tokens per second while it computes; None while it is idle."""
    expected_tokens_per_s: float | None = None
    """What the governor expects of the current length; None while it is idle."""
    governor: GovernorView | None = None
    """None where the gateway has no control channel, or got no answer on it."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of one time, interpolated within the buckets of its histogram."""

    p50_ms: float
    p90_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class TrafficView:
    """The requests of all clients. Rates and percentiles are those of the last minute."""

    num_in_flight: int = 0
    num_waiting: int = 0
    """Requests that wait in the gateway for a replica."""
    requests_per_s: float | None = None
    """Requests that ended."""
    failed_per_s: float | None = None
    """Those of them that failed by no fault of their client."""
    output_tokens_per_s: float | None = None
    """Output tokens of requests that ended."""
    ttft: Percentiles | None = None
    """Time to first token; None without a stream in the last minute."""
    tpot: Percentiles | None = None
    """Time per output token."""
    queue: Percentiles | None = None
    """Time in the gateway before a request is sent to a replica."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """The figures of the replicas taken together."""

    draft_length: float | None = None
    """Mean over the replicas that report one."""
    accepted_fraction: float | None = None
    """Mean over the replicas that report one."""
    tokens_per_s: float | None = None
    """Sum over the same replicas as the expectation; without one see `snapshot.view_fleet`."""
    expected_tokens_per_s: float | None = None
    """Sum over the replicas at work whose governor has an expectation."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the live view shows of one moment."""

    at_s: float
    """Unix time."""
    replicas: tuple[ReplicaView, ...]
    traffic: TrafficView
    fleet: FleetView


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened between two snapshots."""

    at_s: float
    """Unix time."""
    kind: str
    """length, policy, static_setting, drift, breaker, state, restart, draft, joined or left."""
    replica: str
    text: str
    is_problem: bool = False
    """Whether it is marked: the replica serves less than before, or not as configured."""
