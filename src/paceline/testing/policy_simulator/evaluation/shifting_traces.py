"""The phases of a shifting-acceptance trace, by its scripted acceptance."""

from __future__ import annotations

from paceline.foundation.shifting_trace.values import ShiftingTrace, TokenRange, TracePhase
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    OpenLoop,
    Phase,
    TrafficClass,
)


def phases_of(trace: ShiftingTrace) -> tuple[Phase, ...]:
    """The phases of `trace`; ValueError for a category without scripted acceptance.

    The drafter is a model: it always offers drafts.
    """
    return tuple(_phase(trace, phase) for phase in trace.phases)


def _phase(trace: ShiftingTrace, phase: TracePhase) -> Phase:
    load: ClosedLoop | OpenLoop
    if phase.concurrency is not None:
        load = ClosedLoop(phase.concurrency)
    else:
        load = OpenLoop(phase.rate_per_s or 0.0)
    return Phase(
        phase.name,
        load,
        tuple(_traffic_class(trace, name, weight) for name, weight in phase.mix),
        duration_s=phase.duration_s,
        output_tokens=phase.output_tokens,
    )


def _traffic_class(trace: ShiftingTrace, name: str, weight: float) -> TrafficClass:
    script = trace.script(name)
    return TrafficClass(
        name,
        _lengths(script.prompt_tokens),
        _lengths(script.output_tokens),
        DraftTruth(script.acceptance),
        weight,
    )


def _lengths(tokens: TokenRange) -> Lengths:
    return Lengths(tokens.low, tokens.high)
