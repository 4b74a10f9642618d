"""The claims of docs/experiments/comparisons.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/comparisons.md"
NOT_MEASURED = {
    "setting": (
        "a confidence of 99 % and a margin of 3 %",
        "| block | 200 comparisons of equal servers: false alarms | found no difference | "
        "100 with B 3 % faster: found | 100 with B 3 % slower: found |",
        "| 0.5 s |",
        "| **1 s** (default) |",
        "| 2 s |",
        "| 4 s |",
        "| 8 s |",
        "of the 200 comparisons of equal servers at 1 s",
        "so the 200 are not independent",
        "at 1 s and",
        "at 2 s)",
        "with B 3 % faster. The",
    ),
    "target": (
        "The targets are at most 4 false alarms, and 95 found. Blocks of up to 1 s meet them",
        "do not find 3 % on",
    ),
}
_HEADS = {
    0.5: "| 0.5 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
    1.0: "| **1 s** (default) | **{equal[num_alarms]}** | {equal[num_right]} | "
    "**{up[num_right]}** | **{down[num_right]}** | {up[median_minutes]:.1f} |",
    2.0: "| 2 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
    4.0: "| 4 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
    8.0: "| 8 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("compare-power-2026-11-22.json.gz")
    noise = result["noise"]
    yield claim(
        "The recordings hold {minutes:.0f} minutes; over stretches of a second the machine's pace "
        "varied by {second:.0f} % (standard deviation), over a minute by {minute:.1f} %",
        minutes=noise["minutes"],
        second=100 * noise["relative_sd_1_s"],
        minute=100 * noise["relative_sd_60_s"],
    )
    for block_s, head in _HEADS.items():
        yield claim(
            head,
            equal=_cell(result, "signed rank", block_s, 0.0),
            up=_cell(result, "signed rank", block_s, 0.03),
            down=_cell(result, "signed rank", block_s, -0.03),
        )
    yield claim(
        "contained the true difference in {num_covered} of the",
        **_cell(result, "signed rank", 1.0, 0.0),
    )
    yield claim(
        "recognized less often ({one[num_right]} at 1 s and {two[num_right]} at 2 s)",
        one=_cell(result, "t", 1.0, 0.0),
        two=_cell(result, "t", 2.0, 0.0),
    )


def _cell(result: Mapping[str, Any], method: str, block_s: float, gain: float) -> Mapping[str, Any]:
    """The cell of the result with these settings."""
    (found,) = (
        cell
        for cell in result["cells"]
        if (cell["method"], cell["block_s"], cell["gain"]) == (method, block_s, gain)
    )
    return found  # type: ignore[no-any-return]
