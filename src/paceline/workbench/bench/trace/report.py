"""The report of a run as a JSON document. docs/reference/shifting-trace.md lists its keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from paceline.workbench.bench.trace.config import TraceConfig
from paceline.workbench.bench.trace.figures import TraceFigures
from paceline.workbench.bench.trace.measure import TraceMeasurement
from paceline.workbench.bench.trace.oracle import KIND, OracleComparison

SCHEMA_VERSION = 1


def identify(config: TraceConfig) -> dict[str, Any]:
    """What was run. Runs are comparable if all of it but the label is equal."""
    return {
        "name": config.trace.name,
        "sha256": config.trace.sha256,
        "acceptance": config.acceptance.value,
        "load_scale": config.load_scale,
        "time_scale": config.time_scale,
        "seed": config.seed,
        "label": config.label,
    }


def render_document(
    measurement: TraceMeasurement, figures: TraceFigures, comparison: OracleComparison | None
) -> dict[str, Any]:
    """The document that `--json` writes."""
    config = measurement.config
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "valid": figures.is_valid,
        "interrupted": measurement.is_interrupted,
        "num_unfinished": measurement.log.num_unfinished,
        "warnings": [asdict(warning) for warning in figures.warnings],
        "trace": identify(config),
        "summary": {
            "output_tokens_per_s": figures.output_tokens_per_s,
            "num_requests": figures.summary.num_requests,
            "num_errors": figures.summary.num_errors,
        },
        "phases": [asdict(phase) for phase in figures.phases],
        "comparison": None if comparison is None else asdict(comparison),
        "client": asdict(figures.client),
        "config": {
            "url": config.url,
            "serve_command": config.serve_command,
            "draft_length": config.draft_length if config.serve_command else None,
            "admin_url": config.admin_url,
            "model": config.model,
            "timeout_s": config.timeout_s,
            "adaptation": asdict(config.adaptation),
        },
        "environment": asdict(measurement.environment),
        "notes": [*(warning.message for warning in figures.warnings), *measurement.notes],
    }
