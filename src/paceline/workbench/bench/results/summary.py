"""Summarize the records of one measured window.

Rates divide by the window: first scheduled send to last finish, including the drain at the end.
Tokens and latencies come from successful requests; errors are counted separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.distribution import Distribution, describe_ms
from paceline.foundation.results.slo import Goodput, Slo, measure_goodput
from paceline.workbench.bench.results.request_acceptance import (
    RequestAcceptance,
    summarize_acceptance,
)

MAX_ERROR_SAMPLES = 5
"""Distinct messages kept as samples; chosen empirically."""


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The figures of one task of a mixed workload."""

    num_requests: int
    num_errors: int
    output_tokens: int
    output_tokens_per_chunk: float | None
    """With speculation it rises with acceptance."""
    ttft_ms: Distribution
    tpot_ms: Distribution
    acceptance: RequestAcceptance | None
    """Of its requests; None if no answer shows it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one measured window, or of the windows of several repeats together."""

    num_requests: int
    """Requests that ended in the window, whatever their outcome."""
    num_errors: int
    errors_by_outcome: dict[str, int]
    error_samples: tuple[str, ...]
    window_s: float | None
    prompt_tokens: int
    output_tokens: int
    output_tokens_per_s: float | None
    """None when the window is empty or a successful answer came without usage."""
    requests_per_s: float | None
    """Successful requests per second."""
    output_tokens_per_chunk: float | None
    """Above 1 when speculation or batching puts several tokens into one chunk."""
    ttft_ms: Distribution
    tpot_ms: Distribution
    inter_chunk_ms: Distribution
    e2e_ms: Distribution
    dispatch_delay_ms: Distribution
    slot_wait_ms: Distribution
    """Waits because the load bounds the requests in flight; part of every latency."""
    num_without_usage: int
    """Successful answers without token counts."""
    num_empty: int
    """Successful answers without content."""
    goodput: Goodput | None
    """None without an SLO."""
    by_task: dict[str, TaskSummary]
    acceptance: RequestAcceptance | None
    """Of the run's own requests; None if no answer shows it."""


def summarize(records: Sequence[RequestRecord], slo: Slo | None = None) -> Summary:
    """The figures of all records of a run; without records every rate and latency is None.

    Times of different repeats have different origins: rates divide by the sum of their windows.
    """
    done = [r for r in records if r.is_ok]
    errors = [r for r in records if not r.is_ok]
    window_s = _window_s(records)
    num_without_usage = sum(r.output_tokens is None for r in done)
    output_tokens = sum(r.output_tokens or 0 for r in done)
    return Summary(
        num_requests=len(records),
        num_errors=len(errors),
        errors_by_outcome=dict(sorted(Counter(r.outcome.value for r in errors).items())),
        error_samples=_distinct(r.error for r in errors if r.error is not None),
        window_s=window_s,
        prompt_tokens=sum(r.prompt_tokens or 0 for r in done),
        output_tokens=output_tokens,
        output_tokens_per_s=(
            output_tokens / window_s if window_s is not None and not num_without_usage else None
        ),
        requests_per_s=len(done) / window_s if window_s is not None else None,
        output_tokens_per_chunk=_tokens_per_chunk(done),
        ttft_ms=_describe_ttft(done),
        tpot_ms=_describe_tpot(done),
        inter_chunk_ms=describe_ms(
            [gap for r in done for gap in r.chunk_gaps_s], len(done), independent=False
        ),
        e2e_ms=describe_ms([r.e2e_s for r in done], len(done)),
        dispatch_delay_ms=describe_ms([r.dispatch_delay_s for r in records], len(records)),
        slot_wait_ms=describe_ms([r.slot_wait_s for r in records], len(records)),
        num_without_usage=num_without_usage,
        num_empty=sum(not r.chunk_times_s for r in done),
        goodput=measure_goodput(records, slo, window_s) if slo is not None else None,
        by_task={task: _task_summary(records, task) for task in sorted({r.task for r in records})},
        acceptance=summarize_acceptance(records),
    )


def _window_s(records: Sequence[RequestRecord]) -> float | None:
    """First scheduled send to last finish, summed over repeats; None when no time lies between."""
    width_s = 0.0
    for repeat in {r.repeat for r in records}:
        mine = [r for r in records if r.repeat == repeat]
        width_s += max(r.finished_s for r in mine) - min(r.scheduled_s for r in mine)
    return width_s if width_s > 0 else None


def _tokens_per_chunk(done: Sequence[RequestRecord]) -> float | None:
    """None without chunks, or when an answer came without usage."""
    num_chunks = sum(len(r.chunk_times_s) for r in done)
    if not num_chunks or any(r.output_tokens is None for r in done):
        return None
    return sum(r.output_tokens or 0 for r in done) / num_chunks


def _task_summary(records: Sequence[RequestRecord], task: str) -> TaskSummary:
    mine = [r for r in records if r.task == task]
    done = [r for r in mine if r.is_ok]
    return TaskSummary(
        num_requests=len(mine),
        num_errors=len(mine) - len(done),
        output_tokens=sum(r.output_tokens or 0 for r in done),
        output_tokens_per_chunk=_tokens_per_chunk(done),
        ttft_ms=_describe_ttft(done),
        tpot_ms=_describe_tpot(done),
        acceptance=summarize_acceptance(done),
    )


def _describe_ttft(done: Sequence[RequestRecord]) -> Distribution:
    return describe_ms([r.ttft_s for r in done if r.ttft_s is not None], len(done))


def _describe_tpot(done: Sequence[RequestRecord]) -> Distribution:
    return describe_ms([r.tpot_s for r in done if r.tpot_s is not None], len(done))


def _distinct(messages: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(messages))[:MAX_ERROR_SAMPLES]
