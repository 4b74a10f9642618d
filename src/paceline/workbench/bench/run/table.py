"""Render a run's result as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.foundation.command_line.printable import printable
from paceline.foundation.load.config import TraceFacts
from paceline.foundation.load.loads import describe_load
from paceline.foundation.results.bootstrap import BootstrapInterval
from paceline.foundation.results.distribution import Distribution
from paceline.foundation.results.slo import describe_slo
from paceline.workbench.bench.results.request_acceptance import RequestAcceptance
from paceline.workbench.bench.results.speculation import Speculation
from paceline.workbench.bench.results.summary import Summary, TaskSummary
from paceline.workbench.bench.run.outcome import RunResult


def render_table(result: RunResult) -> RenderableType:
    """The verdict on an invalid run first, then the figures, then the warnings."""
    parts: list[RenderableType] = []
    if not result.is_valid:
        parts += [Text("This run is NOT VALID; the warnings below say why.", style="bold red"), ""]
    parts += [_render_rates(result), "", _render_latencies(result.summary)]
    if result.phases:
        parts += ["", _render_phases(result)]
    if len(result.summary.by_task) > 1:
        parts += ["", _render_tasks(result.summary)]
    return Group(*parts, *(Text(printable(f"- {line}")) for line in _lines(result)))


def _render_rates(result: RunResult) -> Table:
    summary, config = result.summary, result.config
    rates = Table(show_header=False, box=None, pad_edge=False)
    rates.add_column(style="bold")
    rates.add_column()
    # As text: rich would take what a server calls its model for markup.
    rates.add_row("server", Text(printable(f"{config.url}  model {config.model}")))
    rates.add_row("load", _load_text(result))
    rates.add_row(
        "output tokens/s",
        _number(summary.output_tokens_per_s) + _interval(result, "output_tokens_per_s", 1),
    )
    rates.add_row(
        "requests/s", _number(summary.requests_per_s, 2) + _interval(result, "requests_per_s", 2)
    )
    rates.add_row("requests", _requests_text(result))
    goodput = summary.goodput
    if goodput is not None:
        rates.add_row("SLO", describe_slo(goodput.slo))
        text = f"{_number(goodput.requests_per_s, 2)} requests/s"
        if goodput.attained_fraction is not None and goodput.attained_fraction_ci95 is not None:
            low, high = goodput.attained_fraction_ci95
            text += (
                f"; {goodput.num_met} of {goodput.num_requests} requests met it: "
                f"{goodput.attained_fraction:.1%} [{low:.1%} to {high:.1%}]"
            )
        rates.add_row("goodput", text)
    speculation = _speculation_text(result.speculation)
    if any(warning.id == "other_traffic" for warning in result.warnings):
        speculation += ", other clients included"
    rates.add_row("speculation", speculation)
    if summary.acceptance is not None:
        rates.add_row("own requests", _acceptance_text(summary.acceptance))
    return rates


def _render_latencies(summary: Summary) -> Table:
    latencies = Table(title="latency in ms, from the scheduled send time", title_justify="left")
    latencies.add_column("")
    for heading in ("mean", "p50", "p90", "p99", "max", "samples"):
        latencies.add_column(heading, justify="right")
    rows = [
        ("time to first token", summary.ttft_ms),
        ("time per output token", summary.tpot_ms),
        ("between chunks", summary.inter_chunk_ms),
        ("whole request", summary.e2e_ms),
        ("dispatch delay", summary.dispatch_delay_ms),
    ]
    if summary.slot_wait_ms.max:
        rows.append(("wait for a slot", summary.slot_wait_ms))
    for name, distribution in rows:
        latencies.add_row(name, *_cells(distribution))
    return latencies


def _render_phases(result: RunResult) -> Table:
    table = Table(title="phases, latency in ms", title_justify="left")
    for heading in ("phase", "load"):
        table.add_column(heading)
    headings = ["tokens/s", "requests/s", "TTFT p50", "TTFT p90", "TPOT p50", "errors"]
    headings += ["acceptance", "lag in s"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for phase in result.phases:
        summary, lags = phase.summary, [adaptation.lag_s for adaptation in phase.adaptation]
        table.add_row(
            phase.name,
            f"{phase.workload}, {phase.load}",
            _number(summary.output_tokens_per_s),
            _number(summary.requests_per_s, 2),
            _number(summary.ttft_ms.p50),
            _number(summary.ttft_ms.p90),
            _number(summary.tpot_ms.p50, 2),
            str(summary.num_errors),
            _number(phase.speculation.acceptance_rate, 3),
            " ".join(_number(lag) for lag in lags) or "-",
        )
    return table


def _render_tasks(summary: Summary) -> Table:
    table = Table(title="by task, latency in ms", title_justify="left")
    table.add_column("task")
    for heading in (
        "requests",
        "errors",
        "tokens",
        "tokens/chunk",
        "TTFT p50",
        "TTFT p90",
        "TPOT p50",
        "TPOT p90",
        *(["acceptance"] if summary.acceptance is not None else []),
    ):
        table.add_column(heading, justify="right")
    for name, task in summary.by_task.items():
        table.add_row(
            name,
            str(task.num_requests),
            str(task.num_errors),
            str(task.output_tokens),
            _number(task.output_tokens_per_chunk, 2),
            _number(task.ttft_ms.p50),
            _number(task.ttft_ms.p90),
            _number(task.tpot_ms.p50, 2),
            _number(task.tpot_ms.p90, 2),
            *([_task_acceptance(task)] if summary.acceptance is not None else []),
        )
    return table


def _task_acceptance(task: TaskSummary) -> str:
    return _number(None if task.acceptance is None else task.acceptance.acceptance_rate, 3)


def _lines(result: RunResult) -> Iterator[str]:
    for warning in result.warnings:
        yield warning.message
    for phase in result.phases:
        for adaptation in phase.adaptation:
            if adaptation.note:
                yield f"adaptation lag of phase {phase.name!r}: {adaptation.note}"
    if result.speculation.note:
        yield f"speculation: {result.speculation.note}"
    for message in result.summary.error_samples:
        yield f"error: {message}"


def _requests_text(result: RunResult) -> str:
    summary = result.summary
    text = f"{summary.num_requests}, of which {summary.num_errors} failed"
    if len(result.repeats) > 1:
        text += f", in {len(result.repeats)} repeats"
    return text


def _load_text(result: RunResult) -> str:
    config = result.config
    if config.phases:
        return f"{len(config.phases)} phases, listed below, seed {config.seed}"
    why = f" ({config.workload_reason}; --workload gives another)" if config.workload_reason else ""
    if config.trace is not None:
        why = f" ({_trace_text(config.trace)})"
        if config.trace_speed != 1.0:
            why += f" at {config.trace_speed:g} times its speed"
    return (
        f"{config.workload_label}{why} at temperature {config.effective_temperature:g}, "
        f"{describe_load(config.load)}, seed {config.seed}"
    )


def _acceptance_text(acceptance: RequestAcceptance) -> str:
    """Acceptance of this run's requests, by what their answers show."""
    text = f"acceptance rate {_number(acceptance.acceptance_rate, 3)}"
    if acceptance.acceptance_length is not None:
        text += f", acceptance length {acceptance.acceptance_length:.2f}"
    spread = acceptance.rate_by_request
    if spread is not None:
        text += f"; by request p10 {spread.p10:.2f}, p50 {spread.p50:.2f}, p90 {spread.p90:.2f}"
    return f"{text} (shown by {acceptance.num_requests} answers)"


def _trace_text(trace: TraceFacts) -> str:
    """How the trace was read: a wrong unit of its times shows in its duration."""
    text = f"{trace.num_requests} requests"
    if trace.num_sessions < trace.num_requests:
        text += f" in {trace.num_sessions} sessions"
    if trace.time_unit is not None:
        unit = "dates" if trace.time_unit == "date" else f"times in {trace.time_unit}"
        text += f" over {trace.duration_s:,.2f} s, {unit}"
    return text if trace.form is None else f"{text}, in the form of {trace.form}"


def _speculation_text(speculation: Speculation) -> str:
    rate, length = speculation.acceptance_rate, speculation.acceptance_length
    if rate is None:
        return "acceptance unknown"
    text = f"acceptance rate {rate:.3f}"
    if length is not None:
        text += f", acceptance length {length:.2f}"
    return f"{text} ({speculation.accepted_tokens} of {speculation.drafted_tokens} drafted)"


def _interval(result: RunResult, name: str, digits: int) -> str:
    interval: BootstrapInterval | None = result.intervals.get(name)
    if interval is None:
        return ""
    return f" [{_number(interval.low, digits)} to {_number(interval.high, digits)}]"


def _cells(distribution: Distribution) -> list[str]:
    figures = (distribution.mean, distribution.p50, distribution.p90, distribution.p99)
    cells = [_number(figure, 2) for figure in (*figures, distribution.max)]
    return [*cells, str(distribution.num_samples)]


def _number(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
