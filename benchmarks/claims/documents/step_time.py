"""The claims of docs/experiments/step-time.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/step-time.md"
NOT_MEASURED = {
    "setting": ("At 256 requests", "of 256 requests on CPUs", "`observe` and `plan`"),
    "target": ("100 µs", "200 µs"),
}
NOW = "governor-step-time-2026-11-30.json"
_EARLY = "governor-step-time-2026-11-30-early.json"
_BEFORE = "governor-step-time-2026-11-30-before.json"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    for head, name, part in (
        ("`observe` and `plan`", NOW, "policy"),
        ("the same of the governor before, in turn", _BEFORE, "policy"),
        ("with everything the scheduler does around it", NOW, "whole"),
        ("the same of the governor before", _BEFORE, "whole"),
        ("`observe` and `plan` where drafts end early", _EARLY, "policy"),
        ("`choose_widths` there", _EARLY, "widths"),
        ("a plain Python sum, timed alternately", NOW, "machine"),
    ):
        runs = [run[part] for run in read(name)["runs"]]
        yield claim(
            f"| {head} | {{p50.median:.0f}} µs ({{p50.lowest:.0f}}-{{p50.highest:.0f}}) | "
            "{p99.lowest:.0f} to {p99.highest:.0f} µs |",
            p50=Spread(run["wall_p50_us"] for run in runs),
            p99=Spread(run["wall_p99_us"] for run in runs),
        )
