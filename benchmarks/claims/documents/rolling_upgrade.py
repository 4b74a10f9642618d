"""The claims of docs/how-to/upgrade.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/how-to/upgrade.md"
NOT_MEASURED = {
    "setting": ("in the 6 s before", "2 virtual cores"),
    "observed": ("paused up to 422 ms",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("rolling-upgrade-2026-11-23.json")
    runs = result["runs"]
    yield claim("while {num_streams} clients send", **result)
    yield claim(
        "In {num} upgrades (n = {one} with one gateway process, n = {two} with two workers) "
        "{num_failed} of {num_requests:,} requests failed or were cut; {num_during:,} began during "
        "an upgrade",
        num=len(runs),
        one=sum(run["workers"] == 1 for run in runs),
        two=sum(run["workers"] == 2 for run in runs),
        num_failed=sum(len(run["faults"]) for run in runs),
        num_requests=sum(run["num_requests"] for run in runs),
        num_during=sum(run["num_during_upgrade"] for run in runs),
    )
    yield claim("commit `{commit:.7}`", commit=result["environment"]["commit"])
    yield claim("with {tpot_ms:.0f} ms per token", **result)
    yield claim("lowest to highest of {num} upgrades", num=len(runs))
    for label, name in (
        ("accepts nothing more, after", "take_over_s"),
        ("completed its requests, after", "old_gateway_ends_after_s"),
    ):
        spread = Spread(run[name] for run in runs)
        yield claim(label + " | {it.lowest:.1f} to {it.highest:.1f} s", it=spread)
    for what, name in (
        ("pause within a stream", "longest_pause_max_ms"),
        ("time to the first token", "first_token_max_ms"),
    ):
        for when, phase in (("during the upgrade", "during"), ("in the 6 s before", "before")):
            spread = Spread(run[phase][name] for run in runs)
            yield claim(
                f"longest {what} {when} | {{it.lowest:.0f}} to {{it.highest:.0f}} ms", it=spread
            )
