"""The claims of docs/experiments/serving-overhead.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/serving-overhead.md"
NOT_MEASURED = {
    "target": ("target 0.85",),
    "observed": ("whose steps take 3 ms",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    twin, bundled = (
        Spread(run["ratio"] for run in read(f"served-rate-{model}-2026-11-21.json")["runs"])
        for model in ("twin", "bundled")
    )
    yield claim("Median of {twin.n} interleaved repeats", twin=twin)
    yield claim(
        "| **{ratio.median:.2f}** ({ratio.lowest:.2f}-{ratio.highest:.2f}) |",
        ratio=twin,
    )
    yield claim(
        "| {ratio.median:.2f} ({ratio.lowest:.2f}-{ratio.highest:.2f}), target",
        ratio=bundled,
    )
