"""`EngineReading`: the figures of one engine at one moment, from either kind of page.

A plain vLLM server shows one engine per data-parallel rank, told apart by the label `engine`. A
Paceline gateway shows one per replica: its load from the metrics, its steps and drafts from the
state of its governor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.foundation.servers.governor_metrics import GOVERNOR_METRICS, state_of
from paceline.foundation.servers.metrics_page import MetricsPage

_VLLM_RUNNING = "vllm:num_requests_running"
_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"


@dataclass(frozen=True, slots=True)
class EngineReading:
    """Totals since the engine's start, and gauges; None for what the server does not show."""

    at_s: float = 0.0
    """Monotonic clock."""
    num_running: float | None = None
    num_in_flight: float | None = None
    """Requests that the gateway has with it now; `num_running` is some seconds old there."""
    num_waiting: float | None = None
    kv_usage_fraction: float | None = None
    preemptions_total: float | None = None
    generation_tokens_total: float | None = None
    prompt_tokens_total: float | None = None
    decode_s_total: float | None = None
    """Time between tokens, summed over requests: with 4 requests in decode, 40 in 10 s."""
    decode_steps_total: float | None = None
    """Steps that gave a request tokens, summed over requests."""
    engine_s_total: float | None = None
    """Time in steps of the engine, each counted once. Only governors report it."""
    engine_steps_total: float | None = None
    drafts_total: float | None = None
    """Drafts verified: one per step and request. None where the engine does not speculate."""
    drafted_tokens_total: float | None = None
    accepted_tokens_total: float | None = None
    accepted_per_position_total: tuple[float, ...] = ()
    """(max_draft_length,)."""
    policy: str | None = None
    """The governor's policy; None without a governor."""
    activity: tuple[float | None, ...] | None = None
    """Figures of which at least one changes while the engine computes; None without any."""

    @property
    def chooses_its_length(self) -> bool:
        """Whether a policy adapts the draft length to the load."""
        return self.policy is not None and self.policy != "fixed"


def governors_on(page: MetricsPage) -> dict[str, Mapping[str, Any]]:
    """The states of governors that the page of a vLLM server shows, by the label `replica`.

    They are parts: see `governor_metrics.state_of`.
    """
    names: dict[str, None] = {}
    for metric in GOVERNOR_METRICS:
        names |= dict.fromkeys(page.label_values(metric.name, "replica"))

    def state(replica: str) -> Mapping[str, Any]:
        return state_of(
            lambda name: [(one.labels, one.value) for one in page.select(name, replica=replica)]
        )

    return {name: found for name in names if (found := state(name))}


def read_engines(
    page: MetricsPage, governors: Mapping[str, Mapping[str, Any]], at_s: float = 0.0
) -> dict[str, EngineReading]:
    """The engines by name: "engine 0" of a vLLM server, or the replicas of a gateway."""
    if page.kind == "paceline":
        names = page.label_values("paceline_replica_state", "replica")
        return {name: _of_replica(page, name, governors.get(name, {}), at_s) for name in names}
    indexes = page.label_values(_VLLM_RUNNING, "engine")
    if not indexes and page.select(_VLLM_RUNNING):
        return {"engine": _of_vllm(page, {}, {}, at_s)}
    return {
        f"engine {index}": _of_vllm(
            page, {"engine": index}, governors.get(f"engine-{index}", {}), at_s
        )
        for index in indexes
    }


def _of_vllm(
    page: MetricsPage, labels: Mapping[str, str], governor: Mapping[str, Any], at_s: float
) -> EngineReading:
    positions = sorted(map(int, filter(str.isdigit, page.label_values(_POSITIONS, "position"))))
    tokens = page.total("vllm:generation_tokens_total", **labels)
    preemptions = page.total("vllm:num_preemptions_total", **labels)
    kv_usage = _first(
        page.total("vllm:kv_cache_usage_perc", **labels),
        page.total("vllm:gpu_cache_usage_perc", **labels),  # until 0.10
    )
    return EngineReading(
        at_s=at_s,
        num_running=page.total(_VLLM_RUNNING, **labels),
        num_waiting=page.total("vllm:num_requests_waiting", **labels),
        kv_usage_fraction=kv_usage,
        preemptions_total=preemptions,
        generation_tokens_total=tokens,
        prompt_tokens_total=page.total("vllm:prompt_tokens_total", **labels),
        decode_s_total=page.total("vllm:inter_token_latency_seconds_sum", **labels),
        decode_steps_total=page.total("vllm:inter_token_latency_seconds_count", **labels),
        drafts_total=page.total("vllm:spec_decode_num_drafts_total", **labels),
        drafted_tokens_total=page.total("vllm:spec_decode_num_draft_tokens_total", **labels),
        accepted_tokens_total=page.total("vllm:spec_decode_num_accepted_tokens_total", **labels),
        accepted_per_position_total=tuple(
            page.total(_POSITIONS, position=str(position), **labels) or 0.0
            for position in positions
        ),
        policy=governor.get("policy"),
        activity=None if tokens is None else (tokens, kv_usage, preemptions),
    )


def _of_replica(
    page: MetricsPage, name: str, governor: Mapping[str, Any], at_s: float
) -> EngineReading:
    def load(metric: str) -> float | None:
        return page.total(f"paceline_replica_load_{metric}", replica=name)

    positions = governor.get("accepted_per_position_total")
    policy = governor.get("policy")
    changes = load("activity_changes_total")
    return EngineReading(
        at_s=at_s,
        num_running=load("requests_running"),
        num_in_flight=page.total("paceline_requests_in_flight", replica=name),
        num_waiting=load("requests_waiting"),
        kv_usage_fraction=load("kv_usage_fraction"),
        preemptions_total=load("preemptions_total"),
        generation_tokens_total=load("generation_tokens_total"),
        engine_s_total=_number(governor.get("seconds_total")),
        engine_steps_total=_number(governor.get("steps_total")),
        drafts_total=_number(governor.get("num_drafts_total")),
        drafted_tokens_total=_number(governor.get("drafted_tokens_total")),
        accepted_tokens_total=_number(governor.get("accepted_tokens_total")),
        accepted_per_position_total=(
            tuple(_number(count) or 0.0 for count in positions)
            if isinstance(positions, list)
            else ()
        ),
        policy=policy if isinstance(policy, str) else None,
        activity=None if changes is None else (changes,),
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]
