"""The claims of docs/experiments/prefill-pacing.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/prefill-pacing.md"
NOT_MEASURED = {"setting": ("about 1,500 tokens arrive",), "baseline": ("| throughput | 1 |",)}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("prefill-pacing-twin-2026-11-21.json")
    load = result["plan"]["load"]
    stock, paced = (
        {
            name: Spread(run["summary"][name] for run in result["runs"] if run["arm"] == arm)
            for name in ("inter_chunk_p99_ms", "inter_chunk_p50_ms", "long_first_token_p50_ms")
        }
        for arm in ("default limits", "paced")
    )
    stock_s, paced_s = (
        arm["long_first_token_p50_ms"].map(lambda ms: ms / 1000) for arm in (stock, paced)
    )
    yield claim("answers of {stream_tokens} tokens stream from the twin", **load)
    yield claim("one every {every_s} s", **load)
    yield claim(
        "| P99 between chunks of the streams | {stock.median:,.0f} ms "
        "({stock.lowest:,.0f}-{stock.highest:,.0f}) | **{paced.median:.1f} ms** "
        "({paced.lowest:.1f}-{paced.highest:.1f}) |",
        stock=stock["inter_chunk_p99_ms"],
        paced=paced["inter_chunk_p99_ms"],
    )
    yield claim(
        "| median between chunks | {stock.median:.0f} ms ({stock.lowest:.0f}-{stock.highest:.0f}) "
        "| {paced.median:.0f} ms ({paced.lowest:.0f}-{paced.highest:.0f}) |",
        stock=stock["inter_chunk_p50_ms"],
        paced=paced["inter_chunk_p50_ms"],
    )
    yield claim(
        "median | {stock.median:.1f} s ({stock.lowest:.1f}-{stock.highest:.1f}) | "
        "**{paced.median:.1f} s** ({paced.lowest:.1f}-{paced.highest:.1f}) |",
        stock=stock_s,
        paced=paced_s,
    )
    yield claim(
        "{ratio.median:.2f} ({ratio.lowest:.2f}-{ratio.highest:.2f}) |",
        ratio=Spread(result["comparison"]["throughput, paced over default"]),
    )
