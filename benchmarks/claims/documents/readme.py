"""The claims of README.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents.failures import num_continued
from benchmarks.claims.documents.shifting_trace import RESULT as SHIFTING_TRACE
from benchmarks.claims.readers import compared, interleaved_figures

DOCUMENT = "README.md"
COMPARED = ("chat-1", "edit-1", "chat-16")
NOT_MEASURED = {
    "setting": ("1 to 32 users", "as much as one of 120M parameters"),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    for name in COMPARED:
        found = compared(read(f"compare-smollm2-{name}-2026-11-30.json"))
        yield claim("| {gain:+.0f} % ({low:+.0f} to {high:+.0f}) |", **found)
    trace = interleaved_figures(read(SHIFTING_TRACE))
    yield claim(
        "fourteen phases of easy to hard text, 1 to 32 users | "
        "{single.mean:+.1f} % ({single.lowest:+.1f} to {single.highest:+.1f}) |",
        **trace,
    )
    yield claim("| {worst.mean:+.0f} % ({worst.lowest:+.0f} to {worst.highest:+.0f}) |", **trace)
    mock = read("soak-kills-2026-11-29.json")
    yield claim(
        "completed under {kills} kills; the others lost a second one, and end with an error since "
        "| {completed:,} of {interrupted:,} |",
        kills=mock["total"]["num_faults_injected"],
        completed=num_continued(mock, "num_interrupted_completed"),
        interrupted=num_continued(mock, "num_interrupted"),
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
        "engines were killed and hung ({lost:,} of them lost their engine) | "
        "{completed:,} of {streams:,} |",
        lost=lost,
        completed=completed,
        streams=streams,
    )
