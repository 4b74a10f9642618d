"""The claims of docs/experiments/comparisons.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/comparisons.md"
NOT_MEASURED = {
    "setting": (
        "a confidence of 99 % and a margin of 3 %",
        "| block | 200 comparisons of equal servers: false alarms | found no difference | "
        "100 with B 3 % faster: found | 100 with B 3 % slower: found |",
        "| **0.5 s** (default) |",
        "| 1 s |",
        "| 2 s |",
        "| 4 s |",
        "| 8 s |",
        "of the 200 comparisons of equal servers at 0.5 s",
        "With looks that began after 40 % of the ten minutes",
        "blocks of 1 s, they were",
        "so the 200 are not independent",
        "at 0.5 s and",
        "was that of A, or 3 % more",
        "| 3 % slower |",
        "is the 99th percentile",
        "at 1 s)",
        "with B 3 % faster. With",
    ),
    "target": (
        "The targets are at most 4 false alarms, and 95 found. Blocks of up to 1 s meet them",
        "do not find 3 % on",
    ),
}
_MOCK_ROW = "| {num} | {right} | {alarms} | {tpot.lowest:+.1f} % to {tpot.highest:+.1f} % |"
_HEADS = {
    0.5: "| **0.5 s** (default) | **{equal[num_alarms]}** | {equal[num_right]} | "
    "**{up[num_right]}** | **{down[num_right]}** | {up[median_minutes]:.1f} |",
    1.0: "| 1 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
    2.0: "| 2 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
    4.0: "| 4 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
    8.0: "| 8 s | {equal[num_alarms]} | {equal[num_right]} | {up[num_right]} | {down[num_right]} "
    "| {up[median_minutes]:.1f} |",
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("compare-power-2026-12-01.json.gz")
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
    runs = read("compare-mock-2026-11-22.json")["runs"]
    equal = [run for run in runs if run["true_tpot_difference"] == 0]
    slower = [run for run in runs if run["true_tpot_difference"] > 0]
    yield _mock_row("equal", equal, "no_difference", ("faster", "slower"))
    yield _mock_row("3 % slower", slower, "slower", ("faster",))
    yield claim(
        "ended after {rounds.lowest:.0f} to {rounds.highest:.0f} rounds",
        rounds=Spread(run["num_rounds"] for run in runs),
    )
    yield claim(
        "contained the true difference in {num_covered} of the",
        **_cell(result, "signed rank", 0.5, 0.0),
    )
    yield claim(
        "recognized less often ({half[num_right]} at 0.5 s and {one[num_right]} at 1 s)",
        half=_cell(result, "t", 0.5, 0.0),
        one=_cell(result, "t", 1.0, 0.0),
    )
    earlier = read("compare-power-2026-11-22.json.gz")
    yield claim(
        "they were {median_minutes:.1f} ([earlier", **_cell(earlier, "signed rank", 1.0, 0.03)
    )


def _mock_row(
    name: str, runs: Sequence[Mapping[str, Any]], right: str, alarms: Sequence[str]
) -> Claim:
    """The row of the comparisons with one true difference."""
    verdicts = [run["verdict"] for run in runs]
    return claim(
        f"| {name} {_MOCK_ROW}",
        num=len(runs),
        right=verdicts.count(right),
        alarms=sum(verdict in alarms for verdict in verdicts),
        tpot=Spread(run["difference"]["tpot_ms"]["relative"] for run in runs).percent(),
    )


def _cell(result: Mapping[str, Any], method: str, block_s: float, gain: float) -> Mapping[str, Any]:
    """The cell of the result with these settings."""
    (found,) = (
        cell
        for cell in result["cells"]
        if (cell["method"], cell["block_s"], cell["gain"]) == (method, block_s, gain)
    )
    return found  # type: ignore[no-any-return]
