"""`RunResult`: everything that a report needs, computed from what the repeats saw."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.foundation.load.config import RunConfig
from paceline.foundation.load.loads import describe_load
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.adaptation import Adaptation, adaptation_lag
from paceline.foundation.results.bootstrap import BootstrapInterval, bootstrap_figures
from paceline.foundation.results.environment import Environment
from paceline.foundation.results.series import Series, build_series, token_arrivals
from paceline.foundation.results.slo import measure_goodput
from paceline.workbench.bench.results.client_health import ClientHealth, assess_client
from paceline.workbench.bench.results.counters import compare_readings
from paceline.workbench.bench.results.speculation import Speculation, unknown_speculation
from paceline.workbench.bench.results.summary import Summary, summarize
from paceline.workbench.bench.results.validity import (
    RunWarning,
    judge_client,
    judge_counters,
    judge_figures,
    judge_lengths,
    judge_load,
)
from paceline.workbench.bench.run.plan import PhasePlan
from paceline.workbench.bench.run.repeat import RepeatOutcome


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """The figures of one phase over all repeats."""

    name: str
    workload: str
    load: str
    start_s: float
    """From the start of each repeat."""
    duration_s: float
    summary: Summary
    """Latencies and goodput are those of requests that were due in the phase. Rates count tokens
    and successful ends within the phase, whichever phase their requests were due in."""
    speculation: Speculation
    adaptation: tuple[Adaptation, ...]
    """One per repeat; empty for the first phase, which follows no change."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run with its figures."""

    config: RunConfig
    """With the model and the temperature that were used."""
    environment: Environment
    summary: Summary
    intervals: dict[str, BootstrapInterval]
    speculation: Speculation
    phases: tuple[PhaseResult, ...]
    """Those that were completed; empty for a run without phases."""
    repeats: tuple[Summary, ...]
    """Empty for a single repeat."""
    client: ClientHealth
    series: tuple[Series, ...]
    """One per repeat."""
    records: tuple[RequestRecord, ...]
    warnings: tuple[RunWarning, ...]
    """Those that make the run invalid come first."""
    interrupted: bool
    num_unfinished: int
    """Requests in flight at the interruption; they enter no figure."""

    @property
    def is_valid(self) -> bool:
        """Whether the figures describe the server."""
        return not any(warning.invalidates for warning in self.warnings)


def assemble_result(
    config: RunConfig,
    environment: Environment,
    phases: Sequence[PhasePlan],
    outcomes: Sequence[RepeatOutcome],
    early_warnings: Sequence[RunWarning],
) -> RunResult:
    """The figures of a run. `early_warnings` arose before the measurement."""
    by_repeat = [outcome.records for outcome in outcomes]
    records = tuple(record for outcome in outcomes for record in outcome.records)
    interrupted = any(outcome.interrupted for outcome in outcomes) or len(outcomes) < config.repeats
    num_unfinished = sum(outcome.num_unfinished for outcome in outcomes)
    summary = summarize(records, config.slo)
    intervals = bootstrap_figures(by_repeat, config.slo)
    speculation = _speculation(outcomes)
    client = assess_client([outcome.lag for outcome in outcomes], by_repeat)
    warnings = [
        *_interruption(interrupted, num_unfinished),
        *judge_client(summary, client, config.max_dispatch_delay_ms),
        *judge_load([(phase.name, phase.load) for phase in phases], records),
        *judge_figures(summary, intervals),
        *judge_lengths(records),
        *judge_counters(speculation, records, is_interrupted=interrupted),
        *_left_out(config, phases),
        *_repeated_prompts(config, phases, records),
        *early_warnings,
    ]
    return RunResult(
        config=config,
        environment=environment,
        summary=summary,
        intervals=intervals,
        speculation=speculation,
        phases=_phase_results(config, phases, outcomes) if config.phases else (),
        repeats=(
            tuple(summarize(mine, config.slo) for mine in by_repeat) if config.repeats > 1 else ()
        ),
        client=client,
        series=tuple(build_series(mine) for mine in by_repeat),
        records=records,
        warnings=tuple(sorted(warnings, key=lambda warning: not warning.invalidates)),
        interrupted=interrupted,
        num_unfinished=num_unfinished,
    )


def _speculation(outcomes: Sequence[RepeatOutcome]) -> Speculation:
    """Acceptance over all repeats, each from its first reading to its last."""
    if any(outcome.interrupted for outcome in outcomes):
        finished = [outcome for outcome in outcomes if not outcome.interrupted]
        if not finished:
            return unknown_speculation("the run was interrupted before the counters were read")
        outcomes = finished
    return compare_readings([(outcome.readings[0], outcome.readings[-1]) for outcome in outcomes])


def _phase_results(
    config: RunConfig, phases: Sequence[PhasePlan], outcomes: Sequence[RepeatOutcome]
) -> tuple[PhaseResult, ...]:
    """The phases that at least one repeat completed."""
    results = []
    for number, phase in enumerate(phases):
        whole = [outcome for outcome in outcomes if len(outcome.readings) > number + 1]
        if whole:
            results.append(_phase_result(config, phase, number, whole))
    return tuple(results)


def _phase_result(
    config: RunConfig, phase: PhasePlan, number: int, whole: Sequence[RepeatOutcome]
) -> PhaseResult:
    assert phase.duration_s is not None
    assert phase.end_s is not None
    arrivals = [token_arrivals(outcome.records) for outcome in whole]
    readings = [(outcome.readings[number], outcome.readings[number + 1]) for outcome in whole]
    return PhaseResult(
        name=phase.name,
        workload=phase.workload,
        load=describe_load(phase.load),
        start_s=phase.start_s,
        duration_s=phase.duration_s,
        summary=_phase_summary(config, phase, number, whole),
        speculation=compare_readings(readings),
        adaptation=tuple(
            adaptation_lag(tokens, phase.start_s, phase.end_s, config.adaptation)
            for tokens in arrivals
            if number
        ),
    )


def _phase_summary(
    config: RunConfig, phase: PhasePlan, number: int, whole: Sequence[RepeatOutcome]
) -> Summary:
    """The summary of the requests that were due in the phase, with the rates within the phase."""
    assert phase.duration_s is not None
    assert phase.end_s is not None
    due = [r for outcome in whole for r in outcome.records if r.phase == number]
    window_s = phase.duration_s * len(whole)
    tokens = sum(
        token_arrivals(outcome.records).tokens_between(phase.start_s, phase.end_s)
        for outcome in whole
    )
    num_ended = sum(
        r.is_ok and phase.start_s <= r.finished_s < phase.end_s
        for outcome in whole
        for r in outcome.records
    )
    has_usage = all(r.output_tokens is not None for o in whole for r in o.records if r.is_ok)
    return dataclasses.replace(
        summarize(due, config.slo),
        window_s=window_s,
        output_tokens_per_s=tokens / window_s if has_usage else None,
        requests_per_s=num_ended / window_s,
        goodput=measure_goodput(due, config.slo, window_s) if config.slo else None,
    )


def _interruption(interrupted: bool, num_unfinished: int) -> Iterator[RunWarning]:
    if interrupted:
        yield RunWarning(
            "interrupted",
            f"interrupted before the planned end; {num_unfinished} requests in flight were "
            "cancelled and enter no figure, so that slow answers are underrepresented",
        )


def _left_out(config: RunConfig, phases: Sequence[PhasePlan]) -> Iterator[RunWarning]:
    for phase in phases:
        if phase.num_left_out:
            where = f" of phase {phase.name!r}" if config.phases else ""
            yield RunWarning(
                "left_out",
                f"{phase.num_left_out} records{where} are not sent, because "
                + (
                    "they have no input or no output tokens, as failed requests have"
                    if config.trace_file
                    else "they have no message of a user"
                ),
            )


def _repeated_prompts(
    config: RunConfig, phases: Sequence[PhasePlan], records: Sequence[RequestRecord]
) -> Iterator[RunWarning]:
    for number, phase in enumerate(phases):
        if phase.is_once and config.repeats == 1:
            continue
        num_sessions = len({r.index for r in records if r.phase == number})
        num_warmup = 0 if number else config.num_warmup
        if num_sessions + num_warmup > len(phase.prompts):
            where = f" of phase {phase.name!r}" if config.phases else ""
            yield RunWarning(
                "repeated_prompts",
                f"{num_sessions} requests{where} and {num_warmup} for warm-up share "
                f"{len(phase.prompts)} prompts; the server may answer repeated prompts from its "
                "prefix cache",
            )
