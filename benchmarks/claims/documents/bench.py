"""The claims of docs/bench.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/bench.md"
NOT_MEASURED: Mapping[str, Sequence[str]] = {}
_TOOLS = {
    "paceline": "`paceline bench run`",
    "vllm": "`vllm bench serve`",
    "guidellm": "GuideLLM",
}
_COLUMNS = ("output_tokens_per_s", "tpot_ms.p50", "ttft_ms.p50")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("bench-cross-check-2026-11-24.json")
    runs = result["runs"]
    yield claim("{num_requests} requests each", **result["settings"])
    for tool, name in _TOOLS.items():
        tokens, tpot, ttft = (_median_percent(runs, tool, figure) for figure in _COLUMNS)
        yield claim(
            "| {name} | {tokens:+.1f} % | {tpot:+.1f} % | {ttft:+.1f} % |",
            name=name,
            tokens=tokens,
            tpot=tpot,
            ttft=ttft,
        )
    ttft_ms = [run[tool]["witness"]["ttft_ms.p50"] for run in runs for tool in _TOOLS]
    yield claim("a TTFT of {low:.0f} to {high:.0f} ms", low=min(ttft_ms), high=max(ttft_ms))
    added_ms = [
        run[tool]["figures"]["ttft_ms.p50"] - run[tool]["witness"]["ttft_ms.p50"]
        for run in runs
        for tool in _TOOLS
    ]
    yield claim("its own {low:.0f} to {high:.0f} ms", low=min(added_ms), high=max(added_ms))


def _median_percent(runs: Sequence[Mapping[str, Any]], tool: str, figure: str) -> float:
    return 100 * statistics.median(
        run[tool]["figures"][figure] / run[tool]["witness"][figure] - 1 for run in runs
    )
