"""Render a run's result: JSON document, one JSON line per request, table for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.bench.load.records import RequestRecord
from paceline.bench.results.distribution import PERCENTILE_METHOD, Distribution
from paceline.bench.results.files import write_text
from paceline.bench.run.measure import RunResult

SCHEMA_VERSION = 1


def render_document(result: RunResult) -> dict[str, Any]:
    """The document that `--json` writes. docs/bench.md describes its keys."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline bench run",
        "summary": asdict(result.summary),
        "speculation": asdict(result.speculation),
        "config": asdict(result.config),
        "environment": asdict(result.environment),
        "percentile_method": PERCENTILE_METHOD,
        "notes": [*result.summary.notes, *result.notes],
    }


def render_record(record: RequestRecord) -> dict[str, Any]:
    """One line of `--records`: the recorded times and the latencies derived from them."""
    return {
        **asdict(record),
        "ttft_s": record.ttft_s,
        "tpot_s": record.tpot_s,
        "e2e_s": record.e2e_s,
        "dispatch_delay_s": record.dispatch_delay_s,
    }


def render_table(result: RunResult) -> RenderableType:
    """The figures as a table for a terminal."""
    summary, config = result.summary, result.config
    rates = Table(show_header=False, box=None, pad_edge=False)
    rates.add_column(style="bold")
    rates.add_column()
    rates.add_row("server", f"{config.url}  model {config.model}")
    rates.add_row("load", _load_text(result))
    rates.add_row("output tokens/s", _number(summary.output_tokens_per_s))
    rates.add_row("requests/s", _number(summary.requests_per_s, 2))
    rates.add_row("requests", f"{summary.num_requests}, of which {summary.num_errors} failed")
    rates.add_row("speculation", _speculation_text(result))
    latencies = Table(title="latency in ms, from the scheduled send time", title_justify="left")
    latencies.add_column("")
    for heading in ("mean", "p50", "p90", "p99", "max", "samples"):
        latencies.add_column(heading, justify="right")
    for name, distribution in (
        ("time to first token", summary.ttft_ms),
        ("time per output token", summary.tpot_ms),
        ("between chunks", summary.inter_chunk_ms),
        ("whole request", summary.e2e_ms),
        ("dispatch delay", summary.dispatch_delay_ms),
    ):
        latencies.add_row(name, *_cells(distribution))
    notes = [*summary.notes, *result.notes]
    if summary.ttft_ms.note:
        notes.append(summary.ttft_ms.note)
    if result.speculation.note:
        notes.append(f"speculation: {result.speculation.note}")
    notes += [f"error: {message}" for message in summary.error_samples]
    return Group(rates, "", latencies, *(Text(f"- {note}") for note in notes))


def write_records(path: Path, records: Iterable[RequestRecord]) -> None:
    """Write one JSON object per line, atomically."""
    write_text(path, "".join(json.dumps(render_record(r)) + "\n" for r in records))


def _load_text(result: RunResult) -> str:
    config = result.config
    what = Path(config.prompts_file).name if config.prompts_file else config.workload
    how = (
        f"closed loop, {config.concurrency} in flight"
        if config.rate_per_s is None
        else f"open loop, {config.rate_per_s:g} requests/s"
    )
    return f"{what} at temperature {config.temperature:g}, {how}, seed {config.seed}"


def _speculation_text(result: RunResult) -> str:
    speculation = result.speculation
    rate, length = speculation.acceptance_rate, speculation.acceptance_length
    if rate is None:
        return "acceptance unknown"
    text = f"acceptance rate {rate:.3f}"
    if length is not None:
        text += f", acceptance length {length:.2f}"
    return f"{text} ({speculation.accepted_tokens} of {speculation.drafted_tokens} drafted)"


def _cells(distribution: Distribution) -> list[str]:
    figures = (distribution.mean, distribution.p50, distribution.p90, distribution.p99)
    cells = [_number(figure, 2) for figure in (*figures, distribution.max)]
    return [*cells, str(distribution.num_samples)]


def _number(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"
