"""The claims of docs/decisions/0002-steps-without-drafts.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents.speculation import HARD, HELD
from benchmarks.claims.readers import paired_ratios

DOCUMENT = "docs/decisions/0002-steps-without-drafts.md"
NOT_MEASURED = {
    "setting": (
        "cost at length 0.",
        "In vLLM 0.32.0",
        "at 8 sampled requests",
        "a step at length 0 cost",
    )
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("speculation-bundled-2026-11-21-first-training.json.gz")
    yield claim(
        "({x.median:.2f} of the throughput of an engine without speculation",
        x=paired_ratios(result, HARD, HELD),
    )
