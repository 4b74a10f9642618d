"""The claims of README.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents.shifting_trace import RESULT as SHIFTING_TRACE
from benchmarks.claims.readers import interleaved_figures

DOCUMENT = "README.md"
NOT_MEASURED = {
    "setting": ("predictable to hard, 1 to 32 users", "as much as one of 120M parameters"),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    trace = interleaved_figures(read(SHIFTING_TRACE))
    for figure in ("none", "worst"):
        yield claim(
            f"| {{{figure}.mean:+.0f}} % ({{{figure}.lowest:+.0f}} to {{{figure}.highest:+.0f}}) |",
            **trace,
        )
    runs = [
        read(f"chaos-real-{name}.json")["total"]
        for name in ("kills-2026-11-23-3", "hangs-2026-11-23-2")
    ]
    completed, streams, lost = (
        sum(run[f"num_eligible_streams{which}"] for run in runs)
        for which in ("_completed", "", "_struck")
    )
    yield claim(
        "engines were killed and hung ({lost:,} lost theirs) | {completed:,} of {streams:,} |",
        lost=lost,
        completed=completed,
        streams=streams,
    )
