"""A prediction as a JSON document, and as text for a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import paceline
from paceline.foundation.recording.reading import Recording
from paceline.workbench.plan.replay.traffic import has_arrival
from paceline.workbench.plan.replay.values import COVERAGE, FIGURES, Estimate, Prediction

SCHEMA_VERSION = 1


def replay_document(
    recording: Recording, setting: Mapping[str, Any], prediction: Prediction
) -> dict[str, Any]:
    """Return the document of a replay; `setting` describes what was predicted."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "plan replay",
        "paceline": paceline.__version__,
        "setting": dict(setting),
        "predicted": {
            name: None if estimate is None else _figure(estimate, prediction.has_intervals)
            for name, estimate in prediction.figures.items()
        },
        "coverage": COVERAGE,
        "num_replicates": prediction.num_replicates,
        "simulated_s": round(prediction.simulated_s, 3),
        "recorded": recorded_figures(recording),
        "warnings": list(prediction.warnings),
    }


def _figure(estimate: Estimate, has_interval: bool) -> dict[str, float | None]:
    if not has_interval:
        return {"value": estimate.value, "low": None, "high": None}
    return asdict(estimate)


def recorded_figures(recording: Recording) -> dict[str, Any]:
    """Return what the recording itself says, without a model."""
    seconds = recording.seconds
    arrived = [request for request in recording.requests if has_arrival(request)]
    cells = [cell for block in recording.blocks for cell in block.cells]
    steps = sum(cell.count for cell in cells)
    tried = sum(sum(request.tried[:1]) for request in recording.requests)
    accepted = sum(sum(request.accepted[:1]) for request in recording.requests)
    firsts_ms = [1e3 * r.first_token_s for r in arrived if r.first_token_s is not None]
    length = sum(cell.draft_length * cell.count for cell in cells)
    return {
        "seconds": round(seconds, 3),
        "num_requests": len(recording.requests),
        "requests_per_s": len(arrived) / seconds if seconds else 0.0,
        "output_tokens_per_s": recording.output_tokens / seconds if seconds else 0.0,
        "ttft_p50_ms": statistics.median(firsts_ms) if firsts_ms else None,
        "draft_length": length / steps if steps else None,
        "first_position_acceptance": accepted / tried if tried else None,
        "policy": recording.header.policy,
        "method": recording.header.method,
        "ended": None if recording.end is None else recording.end.reason,
    }


def render_replay(document: Mapping[str, Any]) -> str:
    """Return the report, without a final line break."""
    setting, recorded = document["setting"], document["recorded"]
    lines = [
        f"Recorded: {recorded['seconds']:,.0f} s, {recorded['num_requests']} requests, "
        f"{recorded['output_tokens_per_s']:,.1f} output tokens/s; policy {recorded['policy']}, "
        f"drafter {recorded['method']}",
        "Replayed: " + "; ".join(f"{name} {value}" for name, value in setting.items() if value),
        f"Simulated: {document['num_replicates']} runs of {document['simulated_s']:,.0f} s",
        "",
        f"{'predicted for one replica':34}{'value':>12}   {document['coverage']:.0%} interval",
    ]
    for name, text in FIGURES.items():
        found = document["predicted"][name]
        if found is not None:
            lines.append(_row(text, found["value"], found["low"], found["high"]))
    lines += [f"Warning: {warning}." for warning in document["warnings"]]
    return "\n".join(lines)


def _row(text: str, value: float, low: float | None, high: float | None) -> str:
    def shown(number: float) -> str:
        return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"

    interval = "none" if low is None or high is None else f"{shown(low)} to {shown(high)}"
    return f"  {text:32}{shown(value):>12}   {interval}"
