"""The claims of docs/how-to/replay.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/replay.md"
NOT_MEASURED = {
    "setting": (
        "a recording of its own of 400 requests",
        "was raised from 2 % to 2.5 % for this reason",
        "4 and 12 requests at a time, lengths 0, 2 and 4",
    ),
}
_NEW_MACHINES = ("8b-l4", "1.5b-cpu-server")
"""Not used for the design."""
_PERCENTS = (
    "mean_error",
    "standard_error",
    "median_error",
    "largest_error",
    "within_10_percent",
    "covered",
    "covered_standard_error",
    "median_half_width",
)


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("plan-replay-2026-11-24.json")
    summary, cells = result["summary"], result["cells"]
    percent = {name: 100 * summary[name] for name in _PERCENTS}
    yield claim(
        "{num_cells} held-out phases were predicted in {num_scenarios} scenarios", **summary
    )
    yield claim(
        "{median_error:.1f} % in the median and {largest_error:.1f} % at most; "
        "{within_10_percent:.0f} % of the phases are within ten percent",
        **percent,
    )
    yield claim(
        "the mean error is {mean_error:+.1f} % with a standard error of {standard_error:.1f} %",
        **percent,
    )
    yield claim("{num_too_low} of the {num_cells} predictions are too low", **summary)
    yield claim(
        "in {covered:.1f} % of the phases (standard error {covered_standard_error:.1f} %, counted "
        "by scenarios) and reaches {median_half_width:.1f} % to either side in the median",
        **percent,
    )
    earlier = read("plan-replay-2026-11-23-4.json")["summary"]
    yield claim("On {num_cells} other phases", num_cells=earlier["num_cells"])
    yield claim("it covered {covered:.1f} %", covered=100 * earlier["covered"])
    new = [cell for cell in cells if cell["machine"] in _NEW_MACHINES]
    yield claim(
        "On these two machines it covers {covered:.0f} % of {num_cells} phases",
        covered=100 * statistics.fmean(cell["covered"] for cell in new),
        num_cells=len(new),
    )
    for figures in summary["by_machine"].values():
        yield claim(
            "| {mean:+.1f} % (standard error {error:.1f}) | {median:.1f} % | "
            "{covered:.0f} % | {width:.1f} % |",
            mean=100 * figures["mean_error"],
            error=100 * figures["standard_error"],
            median=100 * figures["median_error"],
            covered=100 * figures["covered"],
            width=100 * figures["median_half_width"],
        )
    yield from _real_engine(read("plan-replay-real-bundled-2026-11-24-2.json"))
    yield from _one_length(read("plan-replay-real-bundled-2026-11-24.json"))


def _real_engine(result: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim("{seconds:.0f} s of {num_requests} requests", **result["recorded"])
    yield claim(
        "off by {median:.1f} % in the median and {largest:.1f} % at most, and the interval covers "
        "{covered} of {num_cells}",
        **_errors(result),
    )
    for cell in result["cells"]:
        yield claim(
            "| {num_requests}, {draft_length} | {truth_tokens_per_s:.0f} | {predicted:.0f} | "
            "{low:.0f} to {high:.0f} |",
            **cell,
        )


def _one_length(result: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim(
        "too low, by {median:.1f} % in the median and {largest:.1f} % at most, and the interval "
        "covered {covered} of {num_cells}",
        **_errors(result),
    )


def _errors(result: Mapping[str, Any]) -> dict[str, float]:
    summary, cells = result["summary"], result["cells"]
    return {
        "median": 100 * summary["median_error"],
        "largest": 100 * summary["largest_error"],
        "covered": sum(cell["covered"] for cell in cells),
        "num_cells": len(cells),
    }
