"""The claims of docs/how-to/replay.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/replay.md"
NOT_MEASURED: dict[str, tuple[str, ...]] = {}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("plan-replay-2026-11-23.json")
    percent = {
        name: 100 * result["summary"][name]
        for name in ("median_error", "largest_error", "within_10_percent", "covered")
    }
    yield claim("{num_cells} held-out phases", num_cells=result["summary"]["num_cells"])
    yield claim(
        "{median_error:.1f} % in the median and {largest_error:.1f} % at most; "
        "{within_10_percent:.0f} % of the phases are within ten percent",
        **percent,
    )
    yield claim("the truth in {covered:.0f} % of the phases", **percent)
    num_low = sum(cell["error"] < 0 for cell in result["cells"])
    yield claim("All {num_low} predictions are too low", num_low=num_low)
