"""The figures of a run, phase by phase and over the whole trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.foundation.results.adaptation import Adaptation, adaptation_lag
from paceline.foundation.results.series import TokenArrivals, token_arrivals
from paceline.workbench.bench.results.client_health import ClientHealth, assess_client
from paceline.workbench.bench.results.counters import compare_readings
from paceline.workbench.bench.results.speculation import Speculation, unknown_speculation
from paceline.workbench.bench.results.summary import Summary, summarize
from paceline.workbench.bench.results.validity import RunWarning, judge_client, judge_counters
from paceline.workbench.bench.trace.config import AcceptanceMode, TraceConfig
from paceline.workbench.bench.trace.measure import TraceMeasurement
from paceline.workbench.bench.trace.static_acceptance import static_rates

MAX_ACCEPTANCE_ERROR = 0.02
"""Of the first draft token, beyond three standard errors: the accuracy that this trace claims."""

_REMEDIES = {
    AcceptanceMode.SCRIPTED: "The server must accept drafts by the rates in vllm_xargs of each "
    "request; vLLM does not: use --acceptance synthetic",
    AcceptanceMode.SYNTHETIC: "Use {speculative_config} in --serve",
}


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """One phase that ran to its end."""

    name: str
    start_s: float
    seconds: float
    output_tokens: float
    """Arrived in the phase, whichever phase their requests were due in."""
    output_tokens_per_s: float | None
    """None when an answer came without usage."""
    num_requests: int
    """Due in the phase."""
    num_errors: int
    ttft_p50_ms: float | None
    tpot_p50_ms: float | None
    speculation: Speculation
    adaptation: Adaptation | None
    """None for the first phase, which follows no change."""


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """A whole run."""

    phases: tuple[PhaseFigures, ...]
    """Those that ran to their end."""
    output_tokens_per_s: float | None
    """Over these phases."""
    summary: Summary
    client: ClientHealth
    warnings: tuple[RunWarning, ...]

    @property
    def is_valid(self) -> bool:
        """Whether the figures are those of the server on this trace."""
        return not any(warning.invalidates for warning in self.warnings)


def compute_figures(measurement: TraceMeasurement) -> TraceFigures:
    """The figures of a run, complete or interrupted."""
    log, config = measurement.log, measurement.config
    records = sorted(log.records, key=lambda record: record.index)
    arrivals = token_arrivals(records)
    has_usage = all(record.output_tokens is not None for record in records if record.is_ok)
    phases = tuple(
        _phase_figures(measurement, number, arrivals, has_usage)
        for number in range(len(log.ends_s))
    )
    seconds = sum(phase.seconds for phase in phases)
    tokens = sum(phase.output_tokens for phase in phases)
    summary = summarize(records)
    client = assess_client([measurement.lag], [records])
    warnings = [
        *_run_warnings(measurement, summary),
        *judge_client(summary, client, config.max_dispatch_delay_ms),
        *_acceptance_warnings(measurement, phases),
        *judge_counters(
            _whole_window(measurement), records, is_interrupted=measurement.is_interrupted
        ),
    ]
    return TraceFigures(
        phases=phases,
        output_tokens_per_s=tokens / seconds if seconds and has_usage else None,
        summary=summary,
        client=client,
        warnings=tuple(sorted(warnings, key=lambda warning: not warning.invalidates)),
    )


def _whole_window(measurement: TraceMeasurement) -> Speculation:
    """The counters from the start of the first phase to the end of the last."""
    readings = measurement.log.readings
    last = len(measurement.log.ends_s) - 1
    return compare_readings([(readings.get((0, False)), readings.get((last, True)))])


def _phase_figures(
    measurement: TraceMeasurement, number: int, arrivals: TokenArrivals, has_usage: bool
) -> PhaseFigures:
    log, config = measurement.log, measurement.config
    start_s, end_s = log.starts_s[number], log.ends_s[number]
    tokens = arrivals.tokens_between(start_s, end_s)
    due = summarize([record for record in log.records if record.phase == number])
    speculation = unknown_speculation("the run was interrupted before the counters were read")
    if (number, True) in log.readings:
        speculation = compare_readings(
            [(log.readings.get((number, False)), log.readings[number, True])]
        )
    return PhaseFigures(
        name=config.trace.phases[number].name,
        start_s=start_s,
        seconds=end_s - start_s,
        output_tokens=tokens,
        output_tokens_per_s=tokens / (end_s - start_s) if has_usage else None,
        num_requests=due.num_requests,
        num_errors=due.num_errors,
        ttft_p50_ms=due.ttft_ms.p50,
        tpot_p50_ms=due.tpot_ms.p50,
        speculation=speculation,
        adaptation=(
            adaptation_lag(arrivals, start_s, end_s, config.adaptation) if number else None
        ),
    )


def _run_warnings(measurement: TraceMeasurement, summary: Summary) -> Iterator[RunWarning]:
    config = measurement.config
    if measurement.is_interrupted:
        yield RunWarning(
            "interrupted",
            f"interrupted after {len(measurement.log.ends_s)} of {len(config.trace.phases)} "
            f"phases; {measurement.log.num_unfinished} requests in flight were cancelled and enter "
            "no figure",
            invalidates=True,
        )
    if summary.num_errors:
        yield RunWarning(
            "errors",
            f"{summary.num_errors} of {summary.num_requests} requests failed, e.g. "
            f"{summary.error_samples[0]}",
            invalidates=True,
        )
    if summary.num_without_usage:
        yield RunWarning(
            "no_usage",
            f"{summary.num_without_usage} answers came without usage, so tokens per second are "
            "unknown",
        )
    if config.load_scale != 1.0 or config.time_scale != 1.0:
        yield RunWarning(
            "scaled",
            f"the trace ran with {config.load_scale:g} times its load and phases "
            f"{config.time_scale:g} times as long; compare it only with runs at the same scales",
        )


def _acceptance_warnings(
    measurement: TraceMeasurement, phases: Sequence[PhaseFigures]
) -> Iterator[RunWarning]:
    """Phases in which the server did not accept first draft tokens as scripted."""
    config = measurement.config
    if config.acceptance is AcceptanceMode.TEXT:
        return
    unchecked = [phase.name for phase in phases if not _can_be_checked(phase.speculation)]
    if unchecked:
        yield RunWarning(
            "acceptance_unchecked",
            f"if the server drafts, nothing shows whether it accepted drafts as scripted in phase "
            f"{unchecked[0]!r} ({len(unchecked)} phases in all): it reports no counters of "
            "accepted tokens by position; --admin-url names another page",
        )
    for number, phase in enumerate(phases):
        measured, num_drafts = _first_position(phase.speculation)
        if measured is None:
            continue
        lowest, highest = _scripted_range(config, number)
        slack = MAX_ACCEPTANCE_ERROR + 3 * math.sqrt(0.25 / num_drafts)
        if not lowest - slack <= measured <= highest + slack:
            wanted = f"{lowest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"
            remedy = _REMEDIES[config.acceptance]
            yield RunWarning(
                "acceptance",
                f"not valid: in phase {phase.name!r} the server accepted {measured:.3f} of the "
                f"first draft tokens, and the trace scripts {wanted}. {remedy}",
                invalidates=True,
            )


def _can_be_checked(speculation: Speculation) -> bool:
    """Whether nothing was drafted, or the counters by position are known."""
    return speculation.drafted_tokens == 0 or _first_position(speculation)[0] is not None


def _first_position(speculation: Speculation) -> tuple[float | None, int]:
    """The accepted fraction of first draft tokens, and the number of drafts."""
    fractions, num_drafts = speculation.accepted_per_position_fraction, speculation.num_drafts
    if not fractions or not num_drafts:
        return None, 0
    return fractions[0], num_drafts


def _scripted_range(config: TraceConfig, number: int) -> tuple[float, float]:
    """The lowest and highest acceptance of a first draft token in the phase.

    Answers of the phase before end in this one.
    """
    trace = config.trace
    if config.acceptance is AcceptanceMode.SYNTHETIC:
        rate = static_rates(trace, trace.phases[number], config.draft_length)[0]
        return rate, rate
    phases = trace.phases[max(number - 1, 0) : number + 1]
    chances = [trace.script(name).acceptance[0] for phase in phases for name, _ in phase.mix]
    return min(chances), max(chances)
