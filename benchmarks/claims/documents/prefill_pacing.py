"""The claims of docs/experiments/prefill-pacing.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/prefill-pacing.md"
NOT_MEASURED = {
    "setting": ("about 1,500 tokens arrive", "`slo.max_pause_ms`: 200 ms"),
    "baseline": (
        "chunks/s, ratio | 1 |",
        "long prompts, ratio | 1 |",
        "throughput, ratio | 1 |",
    ),
}
RESULT = "prefill-pacing-bundled-2026-11-28-3.json"
EARLIER = "prefill-pacing-twin-2026-11-21.json"
_ARMS = ("vLLM's limits", "vLLM's limits again", "longest pause", "objective")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(RESULT)
    load, found = result["plan"]["load"], result["comparison"]
    yield claim("answers of {stream_tokens} tokens stream from", **load)
    yield claim("one every {every_s} s", **load)
    yield claim(
        "an objective of {objective_ms:.0f} ms", objective_ms=result["plan"]["objective_ms"]
    )
    yield claim("(lowest to highest) of {repeats} repeats", repeats=result["plan"]["repeats"])
    for label, name in (
        ("P99 between chunks of the streams, ms", "inter_chunk_p99_ms"),
        ("median between chunks, ms", "inter_chunk_p50_ms"),
        ("first token of the long prompts, median, ms", "long_first_token_p50_ms"),
    ):
        cells = {f"a{i}": Spread(found[arm][name]) for i, arm in enumerate(_ARMS)}
        yield claim(f"| {label} |" + "".join(_cell(key) for key in cells), **cells)
    for label, name in (
        ("chunks/s, ratio", "chunks_per_s"),
        ("first token of the long prompts, ratio", "long_first_token_p50_ms"),
    ):
        ratios = {
            f"a{i}": Spread(found[f"{arm} / {_ARMS[0]}"][name]) for i, arm in enumerate(_ARMS) if i
        }
        yield claim(
            f"| {label} | 1 |"
            + "".join(
                f" {{{key}.median:.2f}} ({{{key}.lowest:.2f}}-{{{key}.highest:.2f}}) |"
                for key in ratios
            ),
            **ratios,
        )
    yield from _earlier(read(EARLIER))


def _cell(key: str) -> str:
    return f" {{{key}.median:,.0f}} ({{{key}.lowest:,.0f}}-{{{key}.highest:,.0f}}) |"


def _earlier(result: dict[str, Any]) -> Iterator[Claim]:
    """Of the twin, with the pacing of commit 1f61e93."""
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
    yield claim(
        "| P99 between chunks of the streams | {stock.median:,.0f} ms "
        "({stock.lowest:,.0f}-{stock.highest:,.0f}) | {paced.median:.1f} ms "
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
        "{paced.median:.1f} s ({paced.lowest:.1f}-{paced.highest:.1f}) |",
        stock=stock_s,
        paced=paced_s,
    )
    yield claim(
        "| throughput, ratio | 1 | {ratio.median:.2f} ({ratio.lowest:.2f}-{ratio.highest:.2f}) |",
        ratio=Spread(result["comparison"]["throughput, paced over default"]),
    )
