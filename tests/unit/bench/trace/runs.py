"""Small traces, and runs of them in virtual time."""

from __future__ import annotations

from typing import Any

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.shifting_trace import (
    Category,
    Script,
    ShiftingTrace,
    TokenRange,
    TracePhase,
)
from paceline.workbench.bench.trace.config import AcceptanceMode, TraceConfig
from paceline.workbench.bench.trace.measure import TraceMeasurement


def scripted(name: str, *acceptance: float, output: int = 12) -> Category:
    """A category with prompts of 16 tokens."""
    script = Script(acceptance, TokenRange(16, 16), TokenRange(output, output))
    return Category(name, script=script)


def closed(name: str, concurrency: int, category: str, duration_s: float) -> TracePhase:
    return TracePhase(name, ((category, 1.0),), concurrency=concurrency, duration_s=duration_s)


def make_trace(categories: list[Category], phases: list[TracePhase]) -> ShiftingTrace:
    return ShiftingTrace("test", "For tests.", tuple(categories), tuple(phases))


def measurement(trace: ShiftingTrace, **settings: Any) -> TraceMeasurement:
    """A measurement of a scripted trace that has not begun."""
    given = {"url": "http://127.0.0.1:1", "acceptance": AcceptanceMode.SCRIPTED, **settings}
    config = TraceConfig(trace=trace, **given)
    return TraceMeasurement(config, describe_environment(["bench", "trace"]))


def record(index: int, start_s: float, end_s: float, tokens: int, phase: int = 0) -> RequestRecord:
    """An answer whose tokens arrive at the end, one chunk."""
    return RequestRecord(
        index=index,
        task="easy",
        scheduled_s=start_s,
        sent_s=start_s,
        chunk_times_s=(end_s,),
        finished_s=end_s,
        outcome=RequestOutcome.OK,
        prompt_tokens=16,
        output_tokens=tokens,
        phase=phase,
    )
