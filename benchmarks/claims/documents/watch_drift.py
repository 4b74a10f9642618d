"""The claims of docs/how-to/watch-drift.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/watch-drift.md"
NOT_MEASURED = {
    "setting": (
        "shifts by 0.1",
        "within 200 requests",
        "20 full references",
        "the first 400 requests",
    ),
    "guarantee": ("one in 100,000",),
}
BEFORE = "drift-detection-2026-11-24.json"
AFTER = "drift-detection-2026-11-24-2.json"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    before = {one["scenario"]: one for one in read(BEFORE)["scenarios"]}
    scenarios = read(AFTER)["scenarios"]
    for one in scenarios:
        yield claim(
            "{name} | {deviation:.2f} | {flags} in {watched:,} | {median:.0f} | {within:.0%} |",
            name=one["scenario"],
            deviation=one["reference_deviation"],
            flags=one["flagged_without_shift"],
            watched=one["watched_without_shift"],
            median=one["median_delay"],
            within=one["within_fraction"],
        )
    yield claim(
        "there were {flags} false reports in the sessions of five",
        flags=before["sessions of five"]["flagged_without_shift"],
    )
    others = [one for name, one in before.items() if name != "sessions of five"]
    yield claim(
        "and {flags} in the others", flags=sum(one["flagged_without_shift"] for one in others)
    )
