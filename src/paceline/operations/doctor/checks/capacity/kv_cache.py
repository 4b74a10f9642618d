"""`kv-cache-full`: the KV cache is nearly full while requests wait or are preempted."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check, for_each_engine
from paceline.operations.doctor.checks.waiting import queue_cost
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import (
    Observation,
    gauge_values,
    growth,
    share_of,
)
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity

_FULL = 0.9
_MIN_SHARE = 0.5
"""Of the readings in which requests wait."""


def _judge(observation: Observation) -> Sequence[Finding]:
    def judge_one(name: str, readings: Sequence[EngineReading]) -> Finding | None:
        fullest = max(gauge_values(readings, lambda one: one.kv_usage_fraction), default=None)
        if fullest is None:
            raise CannotJudge("the server does not show the use of its KV cache")
        preempted = growth(readings, lambda one: one.preemptions_total) or 0.0
        waits = share_of(readings, lambda one: (one.num_waiting or 0) > 0)
        if fullest < _FULL or not (preempted or waits >= _MIN_SHARE):
            return None
        return _finding(observation, name, readings, fullest, preempted, waits)

    return for_each_engine(observation, judge_one)


def _finding(
    observation: Observation,
    name: str,
    readings: Sequence[EngineReading],
    fullest: float,
    preempted: float,
    waits: float,
) -> Finding:
    config = _cache_config(observation)
    remedies = [
        "Lower max_num_seqs or max_model_len",
        "quantize the weights or the KV cache (kv_cache_dtype fp8)",
        "add a replica",
    ]
    settings = ["max_num_seqs", "max_model_len", "kv_cache_dtype"]
    if config.get("enable_prefix_caching", "").lower() == "false":
        remedies.insert(0, "Turn prefix caching on: shared prompts are then stored once")
        settings.insert(0, "enable_prefix_caching")
    utilization = config.get("gpu_memory_utilization", "")
    if _number(utilization) is not None and (_number(utilization) or 1) < 0.85:
        remedies.insert(0, f"Raise gpu_memory_utilization from {utilization} to 0.85 to 0.90")
        settings.insert(0, "gpu_memory_utilization")
    return Finding(
        id="kv-cache-full",
        severity=Severity.WARNING,
        summary=(
            f"The KV cache of {name} is {100 * fullest:.0f} % full: "
            + (f"{preempted:.0f} requests were preempted" if preempted else "requests wait for it")
            + "."
        ),
        evidence=(
            Evidence("KV cache in use, at most", round(100 * fullest, 1), "%"),
            Evidence("preemptions", preempted),
            Evidence("requests waiting, at most", max(one.num_waiting or 0 for one in readings)),
            Evidence("readings with requests waiting", round(100 * waits), "%"),
        ),
        cost=queue_cost(observation, name, readings),
        cause=(
            "The contexts of the admitted requests do not fit together. A preempted request loses "
            "its context and is prefilled again."
        ),
        remedy="; ".join(remedies),
        settings=tuple(settings),
        subject=name,
    )


def _cache_config(observation: Observation) -> dict[str, str]:
    """The labels of vLLM's vllm:cache_config_info; empty where it is not shown."""
    samples = observation.last.page.select("vllm:cache_config_info")
    return dict(samples[0].labels) if samples else {}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


CHECK = Check("kv-cache-full", "a full KV cache that holds requests up", ("kv-cache-full",), _judge)
