"""The claims of README.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.documents.failures import num_continued
from benchmarks.claims.documents.headline import CELLS
from benchmarks.claims.documents.headline import RESULT as HEADLINE
from benchmarks.claims.documents.shifting_trace import CHATS
from benchmarks.claims.readers import compared, interleaved_figures
from benchmarks.claims.spread import Spread
from benchmarks.headline.measured import TOKENS_PER_S, Measured, read_measured

DOCUMENT = "README.md"
COMPARED = ("chat-1", "edit-1", "chat-16")
NOT_MEASURED = {
    "setting": ("eight loads", "ten phases"),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    for name in COMPARED:
        found = compared(read(f"compare-smollm2-{name}-2026-12-01.json"))
        yield claim("| {gain:+.0f} % ({low:+.0f} to {high:+.0f}) |", **found)
    yield from _servers(read_measured(read(HEADLINE)))
    trace = interleaved_figures(read(CHATS))
    for text, figure in (
        ("half of them sampled, against no speculation", "none"),
        ("against the better of no speculation and the best fixed length", "worst"),
    ):
        yield claim(
            text + " | {x.mean:+.1f} % ({x.lowest:+.1f} to {x.highest:+.1f}) |", x=trace[figure]
        )
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


def _servers(measured: Measured) -> Iterator[Claim]:
    def gain(base: str, cell: str) -> Spread:
        return Spread(measured.gain(TOKENS_PER_S, "paceline", base, cell))

    times = "| {x.mean:.{digits}f} times ({x.lowest:.{digits}f} to {x.highest:.{digits}f}) |"
    for text, base, digits in (
        ("with the same weights in four bits ", "llama.cpp", 1),
        ("against vLLM with its defaults ", "vllm", 2),
    ):
        yield claim(text + times.replace("{digits}", str(digits)), x=gain(base, "chat-16"))
    worst = min((gain("vllm+layout", cell) for cell in CELLS), key=lambda one: one.mean)
    yield claim(
        "against vLLM without drafts in the same layout " + times.replace("{digits}", "2"), x=worst
    )
