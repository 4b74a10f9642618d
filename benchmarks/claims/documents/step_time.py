"""The claims of docs/experiments/step-time.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/step-time.md"
NOT_MEASURED = {
    "setting": ("At 256 requests", "256 requests and"),
    "target": ("The target is 50 µs",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    runs = read("governor-step-time-2026-11-22.json")["runs"]
    policy, whole = _p50(runs, "policy"), _p50(runs, "whole")
    yield claim(
        "| choose the draft length | {policy.median:.0f} µs "
        "({policy.lowest:.0f}-{policy.highest:.0f}) "
        "| **{p99.lowest:.0f} to {p99.highest:.0f} µs** |",
        policy=policy,
        p99=Spread(run["policy"]["wall_p99_us"] for run in runs),
    )
    yield claim(
        "scheduler does around it | {whole.median:.0f} µs ({whole.lowest:.0f}-{whole.highest:.0f})",
        whole=whole,
    )
    yield claim(
        "timed alternately | | {machine.lowest:.0f} to {machine.highest:.0f} µs |",
        machine=Spread(run["machine"]["wall_p99_us"] for run in runs),
    )
    earlier = read("governor-step-time-2026-11-21.json")["runs"]
    # Each repeat runs `goodput` with 1 and 256 requests, then `latency` with 1 and 256.
    single, busy, single_latency, busy_latency = (
        _p50(earlier[first::4], "policy") for first in range(4)
    )
    yield claim(
        "the median was {busy.lowest:.0f} to {busy.highest:.0f} µs at 256 requests and "
        "{single.lowest:.0f} to {single.highest:.0f} µs at one; `latency` took {more:.0f} and "
        "{single_more:.0f} µs more",
        busy=busy,
        single=single,
        more=busy_latency.median - busy.median,
        single_more=single_latency.median - single.median,
    )


def _p50(runs: list[Mapping[str, Any]], part: str) -> Spread:
    return Spread(run[part]["wall_p50_us"] for run in runs)
