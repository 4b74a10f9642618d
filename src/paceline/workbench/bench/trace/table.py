"""Render the figures of a run as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.foundation.command_line.printable import printable
from paceline.workbench.bench.trace.config import TraceConfig
from paceline.workbench.bench.trace.figures import PhaseFigures, TraceFigures
from paceline.workbench.bench.trace.oracle import OracleComparison


def render_table(
    config: TraceConfig, figures: TraceFigures, comparison: OracleComparison | None
) -> RenderableType:
    """The verdict on an invalid run first, then the phases, the comparison and the warnings."""
    parts: list[RenderableType] = []
    if not figures.is_valid:
        parts += [Text("This run is NOT VALID; the warnings below say why.", style="bold red"), ""]
    parts += [
        Text(
            f"trace {config.trace.name}, by {config.acceptance}: "
            f"{_number(figures.output_tokens_per_s)} output tokens/s"
        ),
        "",
        _render_phases(figures, comparison),
    ]
    return Group(*parts, *(Text(printable(line)) for line in _lines(figures, comparison)))


def _render_phases(figures: TraceFigures, comparison: OracleComparison | None) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("phase")
    for heading in ("tokens/s", "requests", "TTFT p50 ms", "TPOT p50 ms", "acceptance", "lag s"):
        table.add_column(heading, justify="right")
    if comparison is not None:
        table.add_column("of oracle", justify="right")
        table.add_column("oracle")
    for number, phase in enumerate(figures.phases):
        row = list(_cells(phase))
        if comparison is not None:
            against = comparison.phases[number]
            row += [f"{against.fraction_of_oracle:.1%}", against.oracle]
        table.add_row(*row)
    return table


def _cells(phase: PhaseFigures) -> Iterator[str]:
    yield phase.name
    yield _number(phase.output_tokens_per_s)
    yield str(phase.num_requests)
    yield _number(phase.ttft_p50_ms)
    yield _number(phase.tpot_p50_ms, 2)
    yield _number(phase.speculation.acceptance_rate, 3)
    yield "-" if phase.adaptation is None else _number(phase.adaptation.lag_s)


def _lines(figures: TraceFigures, comparison: OracleComparison | None) -> Iterator[str]:
    if comparison is not None:
        yield ""
        yield (
            f"{comparison.fraction_of_oracle:.1%} of the oracle, the best of "
            f"{len(comparison.against)} runs in each phase; {comparison.mean_phase_fraction:.1%} "
            "by phase"
        )
        yield (
            f"worst phase: {comparison.worst_phase} at {comparison.worst_phase_fraction:.1%} of "
            "the oracle"
        )
        yield (
            f"{comparison.fraction_of_best_single:.1%} of the best single run over the trace, "
            f"{comparison.best_single}"
        )
    for warning in figures.warnings:
        yield f"- {warning.message}"


def _number(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
