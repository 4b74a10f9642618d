"""Figures that several documents take from the same kinds of raw results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.claims.spread import Spread
from benchmarks.governor.report.analysis import Findings, analyse
from benchmarks.governor.report.measured import Estimate, Measured, read_runs


def paired_ratios(
    result: Mapping[str, Any], load: str, arm: str, figure: str = "output_tokens_per_s"
) -> Spread:
    """An arm of `benchmarks/paired.py` relative to its baseline, one ratio per repeat."""
    (found,) = (
        one["ratios"]
        for one in result["comparisons"]
        if (one["load"], one["arm"], one["figure"]) == (load, arm, figure)
    )
    return Spread(found)


def trace_findings(result: Mapping[str, Any]) -> tuple[Measured, Findings]:
    """The runs of `benchmarks/governor/run.py`, and every arm compared with its references."""
    measured = read_runs(result)
    return measured, analyse(measured)


def spread_of(estimate: Estimate | None) -> Spread:
    """The repeats of a figure of `trace_findings`."""
    if estimate is None:
        raise ValueError("the arm that this figure is relative to was not measured")
    return Spread(estimate.values)
