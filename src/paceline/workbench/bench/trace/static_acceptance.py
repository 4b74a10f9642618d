"""The scripted acceptance of a phase as the one set of rates that a vLLM server has.

vLLM's `synthetic_acceptance_rates` are fixed when the server starts, and hold for all requests. A
phase with several categories is therefore run at their mean: category c with survival S_c makes the
fraction w_c of the drafts, where w_c is proportional to

    weight of c * mean output tokens of c / (1 + S_c(1) + … + S_c(K))

The mean reproduces the accepted tokens of all drafts together. It does not reproduce that requests
of one category are faster than those of another.
"""

from __future__ import annotations

from collections.abc import Iterator

from paceline.foundation.shifting_trace import ShiftingTrace, TracePhase


def static_rates(trace: ShiftingTrace, phase: TracePhase, draft_length: int) -> tuple[float, ...]:
    """Entry j: the chance that draft tokens 1 to j + 1 are all accepted, (draft_length,)."""
    shares, survivals = [], []
    for name, weight in phase.mix:
        script = trace.script(name)
        survival = script.survival(draft_length)
        mean_output = (script.output_tokens.low + script.output_tokens.high) / 2
        shares.append(weight * mean_output / (1 + sum(survival)))
        survivals.append(survival)
    total = sum(shares)
    return tuple(
        sum(share * survival[position] for share, survival in zip(shares, survivals, strict=True))
        / total
        for position in range(draft_length)
    )


def stretches(
    trace: ShiftingTrace, draft_length: int
) -> Iterator[tuple[tuple[float, ...], list[tuple[int, TracePhase]]]]:
    """Rates, and the phases in a row that have them, by their numbers: one server each."""
    together: list[tuple[int, TracePhase]] = []
    rates: tuple[float, ...] | None = None
    for number, phase in enumerate(trace.phases):
        found = static_rates(trace, phase, draft_length)
        if rates is not None and found != rates:
            yield rates, together
            together = []
        rates = found
        together.append((number, phase))
    if rates is not None:
        yield rates, together
