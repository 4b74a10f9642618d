"""`prefill-stalls`: prompts that are computed in the same steps hold the running answers up.

The prompts must be computed, so what is lost is not their time but that it comes at once. Spread
evenly, every step would take the mean; that, at the price of a longer median, is the most that
smaller pieces can win back. Whether the exchange pays depends on how long a pause users accept: the
finding is a remark where the 99th percentile is certainly within it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.foundation.servers.metrics_histogram import Histogram
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Lacking,
    Severity,
)

_NAMES = {
    "vllm": (
        "vllm:inter_token_latency_seconds", "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total", "vllm:prompt_tokens_cached_total",
    ),
    "paceline": (
        "paceline_replica_inter_token_seconds", "paceline_prompt_tokens_total",
        "paceline_output_tokens_total", "paceline_cached_prompt_tokens_total",
    ),
}  # fmt: skip
"""By kind of server: the histogram of steps; prompt tokens, output tokens, cached prompt tokens."""
_MIN_STEPS = 200
"""For a 99th percentile with two observations above it."""
_MIN_PAUSES = 3
"""One step of n requests counts n times: a single pause of the machine is the 99th percentile of
hundreds of steps. That many steps of all running requests must be in the tail."""
_RATIO = 4.0
"""Between the lower end of p99 and the upper end of the median. Chosen empirically."""
_MIN_PROMPT_SHARE = 0.5
"""Prompt tokens per output token: below, prefill is too little to be the cause."""
_MIN_SHARE = 0.1
"""Of the time between tokens that is certainly above the median. Two kinds of load within one
observation have a tail, too."""


def _judge(observation: Observation) -> Sequence[Finding]:
    histogram, prompts_total, outputs_total, cached_total = _NAMES[observation.kind]
    prompts = observation.increase(prompts_total)
    if observation.last.page.select(cached_total):
        prompts -= observation.increase(cached_total)
    outputs = observation.increase(outputs_total)
    added = _added(observation, histogram)
    most = max(steps.count for steps in added.values())
    if most < _MIN_STEPS:
        raise CannotJudge(
            f"{most:.0f} steps were observed; {_MIN_STEPS} are needed", Lacking.REQUESTS
        )
    has_prompts = prompts >= _MIN_PROMPT_SHARE * outputs
    stalled = [
        (subject, steps, median, tail)
        for subject, steps in added.items()
        if has_prompts and steps.count >= _MIN_STEPS
        for median, tail in _stalled(steps)
    ]
    sure = [
        _finding(observation.max_pause_ms, steps, tail, median, prompts, outputs, subject)
        for subject, steps, median, tail in stalled
        if steps.count_above(tail[0]) >= _MIN_PAUSES * _most_running(observation, subject)
    ]
    if stalled and not sure:
        raise CannotJudge(
            f"fewer than {_MIN_PAUSES} pauses of all running requests are certain", Lacking.REQUESTS
        )
    return sure


def _added(observation: Observation, name: str) -> dict[str | None, Histogram]:
    """What each replica of a gateway added that was shown from the beginning and did not restart;
    or a vLLM server as a whole."""
    if observation.kind == "vllm":
        return {None: observation.histogram(name)}
    first, last = observation.first.page, observation.last.page
    added: dict[str | None, Histogram] = {}
    for replica in last.label_values(f"{name}_count", "replica"):
        before = first.histogram(name, replica=replica)
        after = last.histogram(name, replica=replica)
        steps = None if before is None or after is None else after.minus(before)
        if steps is not None:
            added[replica] = steps
    if not added:
        raise CannotJudge(f"the server does not show {name}")
    return added


def _most_running(observation: Observation, replica: str | None) -> float:
    """Requests at a time: of the replica, or of the server; at least 1."""
    names = observation.engines if replica is None else [replica]
    most = [max(map(_running, observation.engines.get(name, ())), default=0.0) for name in names]
    return max(1.0, sum(most))


def _running(engine: EngineReading) -> float:
    """Those that a gateway sees between its polls count, too; waiting ones share no step."""
    in_flight = (engine.num_in_flight or 0.0) - (engine.num_waiting or 0.0)
    return max(engine.num_running or 0.0, in_flight)


def _stalled(steps: Histogram) -> Sequence[tuple[tuple[float, float], tuple[float, float]]]:
    """The buckets of the median and of the 99th percentile, if they are far apart; else nothing."""
    median, tail, mean = steps.bucket_of(0.5), steps.bucket_of(0.99), steps.mean
    if median is None or tail is None or mean is None or math.isinf(median[1]):
        return ()
    if tail[0] < _RATIO * median[1] or mean - median[1] < _MIN_SHARE * mean:
        return ()
    return ((median, tail),)


def _finding(
    bound_ms: float,
    steps: Histogram,
    tail: tuple[float, float],
    median: tuple[float, float],
    prompts: float,
    outputs: float,
    subject: str | None,
) -> Finding:
    mean_s = steps.mean or 0.0
    middle_s = tail[0] if math.isinf(tail[1]) else (tail[0] + tail[1]) / 2
    return Finding(
        id="prefill-stalls",
        severity=Severity.INFO if 1e3 * tail[1] <= bound_ms else Severity.WARNING,
        summary=(
            f"One step in a hundred{'' if subject is None else f' of {subject}'} takes "
            f"{1e3 * tail[0]:.0f} ms or more, the median at most "
            f"{1e3 * median[1]:.0f} ms."
        ),
        evidence=(
            Evidence("p99 between tokens", _range(tail), "ms"),
            Evidence("median between tokens", _range(median), "ms"),
            Evidence("mean between tokens", 1e3 * mean_s, "ms"),
            Evidence("accepted at p99", bound_ms, "ms"),
            Evidence("steps", steps.count),
            Evidence("prompt tokens less reported cache hits", prompts),
            Evidence("output tokens", outputs),
        ),
        cost=Cost(
            Basis.ESTIMATED,
            "P99, which is shown as a bucket, less the mean, which every step would take if "
            "prompts were spread evenly",
            CostUnit.MS_AT_P99,
            1e3 * max(0.0, middle_s - mean_s),
            1e3 * max(0.0, tail[0] - mean_s),
            None if math.isinf(tail[1]) else 1e3 * max(0.0, tail[1] - mean_s),
        ),
        cause="Long prompts share a step with running answers, which wait until it ends.",
        remedy=(
            "If such pauses matter, lower max_num_batched_tokens, so that a prompt is computed in "
            "smaller pieces, which makes the other steps longer. Paceline paces prefill by "
            "measured times: lower its slo.max_pause_ms, or set it again where it was emptied. "
            "--max-pause-ms states what users accept"
        ),
        settings=("max_num_batched_tokens", "slo.max_pause_ms"),
        subject=subject,
    )


def _range(bucket: tuple[float, float]) -> str:
    """In ms.

    >>> _range((0.01, 0.025))
    '10 to 25'
    """
    return f"{1e3 * bucket[0]:g} to {1e3 * bucket[1]:g}"


CHECK = Check(
    "prefill-stalls",
    "steps that prompts make long while the median is short",
    ("prefill-stalls",),
    _judge,
)
