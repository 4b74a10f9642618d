"""The claims of docs/bench-quick.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/bench-quick.md"
NOT_MEASURED = {
    "setting": (
        "(`hard`: 1)",
        "(64) tokens",
        "(1 s)",
        "grows by 2, far below the limit\nby 4",
        "runs for 3 to 6 s",
        "(90 %)",
        "their\n  window 200 times",
        "a random factor of 10 % and all together one of 5 %",
        "fails for 90 s, the exit code is 3",
    ),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("quick-accuracy-2026-11-24.json")
    truth, runs = result["truth"]["holds"], result["runs"]
    covered = sum(
        run["max_concurrency"]["low"] <= truth <= run["max_concurrency"]["high"] for run in runs
    )
    durations = [run["duration_s"] for run in runs]
    yield claim(
        "held every level for {seconds:.0f} s, where {truth} chats were the truth",
        seconds=result["settings"]["sweep_seconds_per_level"],
        truth=truth,
    )
    yield claim("interval of {covered} of {num} runs", covered=covered, num=len(runs))
    yield claim("a run took {low:.0f} to {high:.0f} s", low=min(durations), high=max(durations))
