"""The claims of docs/how-to/replay.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/replay.md"
NOT_MEASURED: dict[str, tuple[str, ...]] = {}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("plan-replay-2026-11-23-2.json")
    summary = result["summary"]
    percent = {
        name: 100 * summary[name]
        for name in (
            "median_error",
            "largest_error",
            "within_10_percent",
            "covered",
            "mean_error",
            "standard_error",
        )
    }
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
    yield claim("the truth in {covered:.0f} % of the phases", **percent)
    deep = [
        cell["error"]
        for cell in result["cells"]
        if cell["machine"] == "cpu-small"
        and cell["draft_length"] >= 3
        and not cell["other_drafter"]
    ]
    yield claim("are {deep:.1f} % too high on average", deep=100 * statistics.fmean(deep))
