"""The table and the JSON document of a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.foundation.command_line.printable import printable
from paceline.foundation.results.slo import describe_slo
from paceline.workbench.bench.run.document import render_document
from paceline.workbench.bench.sweep.measure import SweepResult, SweepStep

SCHEMA_VERSION = 1


def render_sweep(result: SweepResult) -> dict[str, Any]:
    """The document that `--json` writes: each step has the whole report of its run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline bench sweep",
        "valid": all(step.result.is_valid for step in result.steps),
        "interrupted": result.interrupted,
        "highest_kept_rate_per_s": highest_kept(result),
        "lowest_lost_rate_per_s": _lowest_lost(result),
        "num_skipped": result.num_skipped,
        "steps": [
            {
                "rate_per_s": step.rate_per_s,
                "is_kept": step.is_kept,
                "served_fraction": step.served_fraction,
                "report": render_document(step.result),
            }
            for step in sorted(result.steps, key=lambda step: step.rate_per_s)
        ],
    }


def render_sweep_table(result: SweepResult) -> RenderableType:
    """One row per rate, then what they show together and their warnings."""
    steps = sorted(result.steps, key=lambda step: step.rate_per_s)
    config = steps[0].result.config
    table = Table(
        title="latency in ms, from the scheduled send time", title_justify="left", box=None
    )
    table.add_column("rate/s", justify="right")
    for heading in ("kept", "requests/s", "tokens/s", "TTFT p50", "TTFT p90", "TPOT p50"):
        table.add_column(heading, justify="right")
    for heading in ("E2E p90", "requests", "errors"):
        table.add_column(heading, justify="right")
    if config.slo is not None:
        table.add_column("goodput/s", justify="right")
        table.add_column("met SLO", justify="right")
    for step in steps:
        table.add_row(*_cells(step))
    head = f"{config.url}  model {config.model}, {config.workload_label}, seeds from {config.seed}"
    lines = [*_lines(result)]
    return Group(
        Text(printable(head)), "", table, *(Text(printable(f"- {line}")) for line in lines)
    )


def highest_kept(result: SweepResult) -> float | None:
    """The highest rate that was kept; None if none was."""
    return max((s.rate_per_s for s in result.steps if s.is_kept), default=None)


def _lowest_lost(result: SweepResult) -> float | None:
    lost = (s.rate_per_s for s in result.steps if not s.is_kept and s.served_fraction is not None)
    return min(lost, default=None)


def _cells(step: SweepStep) -> Iterator[str]:
    summary = step.result.summary
    yield f"{step.rate_per_s:.3g}"
    yield "unknown" if step.served_fraction is None else "yes" if step.is_kept else "no"
    yield _number(summary.requests_per_s, 2)
    yield _number(summary.output_tokens_per_s)
    yield _number(summary.ttft_ms.p50)
    yield _number(summary.ttft_ms.p90)
    yield _number(summary.tpot_ms.p50, 2)
    yield _number(summary.e2e_ms.p90)
    yield str(summary.num_requests)
    yield str(summary.num_errors)
    if step.result.config.slo is not None:
        goodput = summary.goodput
        yield _number(None if goodput is None else goodput.requests_per_s, 2)
        fraction = None if goodput is None else goodput.attained_fraction
        yield "unknown" if fraction is None else f"{fraction:.1%}"


def _lines(result: SweepResult) -> Iterator[str]:
    kept, lost = highest_kept(result), _lowest_lost(result)
    if kept is None and lost is None:
        yield "it is not known whether the server keeps any rate"
    elif kept is None:
        yield f"the server kept none of these rates; the lowest was {lost:.3g} requests/s"
    elif lost is None:
        rates = "all of these rates" if all(s.is_kept for s in result.steps) else f"{kept:.3g}/s"
        yield f"the server kept {rates}; its limit is above {kept:.3g} requests/s"
    else:
        yield (
            f"the server kept {kept:.3g} requests/s and not {lost:.3g}: above its limit requests "
            "pile up, and latencies depend on the length of the run"
        )
    for step in result.steps:
        if step.served_fraction is None:
            yield (
                f"--duration is too short: at {step.rate_per_s:.3g}/s the arrivals ended before "
                "a request could, so it is not known whether the server keeps this rate"
            )
    if result.num_skipped:
        yield f"{result.num_skipped} higher rates were not measured"
    slo = result.steps[0].result.config.slo
    if slo is not None:
        yield f"SLO: {describe_slo(slo)}"
    for step in result.steps:
        for warning in step.result.warnings:
            if warning.id not in ("few_samples", "saturation", "noise"):
                yield f"at {step.rate_per_s:.3g}/s: {warning.message}"


def _number(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
