"""The claims of docs/experiments/latency-policy.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/latency-policy.md"
NOT_MEASURED = {
    "setting": (
        "about 300 answers each",
        "within 5 %",
        "count as gaps of 0,",
        "draft length 0 in",
        "one gap in 100 is",
    ),
    "observed": ("for answers of 128 and 256 tokens", "up to 8 % slower (*observed*)"),
}
RESULT = "governor-latency-simulator-2026-11-21.json.gz"
POLICIES = ("goodput", "latency")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    cells = read(RESULT)["cells"]
    for policy in POLICIES:
        found = Spread(slowdown(cell, policy) for cell in cells)
        yield claim(
            f"| `{policy}` | {{found.mean:.3f}} | {{found.highest:.2f}} | {{near}} of {{found.n}} "
            "phases |",
            found=found,
            near=sum(value <= 1.05 for value in found.values),
        )
    num_off = sum(_best_length(cell, "gap_p99_ms") == "K=0" for cell in cells)
    yield claim("in {num_off} of the {n} phases", num_off=num_off, n=len(cells))
    alike = [cell for cell in cells if not _is_uneven(cell)]
    behind = sorted(slowdown(cell, "latency") / slowdown(cell, "goodput") for cell in alike)[-3:]
    yield claim(
        "In three of those phases `latency` is {x.lowest:.0f} to {x.highest:.0f} % slower",
        x=Spread(behind).gain_percent(),
    )
    uneven = [cell for cell in cells if _is_uneven(cell) and _is_busy(cell)]
    slow = [value for cell in uneven if (value := slowdown(cell, "goodput")) > 1.01]
    yield claim(
        "the slowest answers are {x.lowest:.0f} to {x.highest:.0f} % slower under `goodput` in "
        "{x.n} of {num} phases",
        x=Spread(slow).gain_percent(),
        num=len(uneven),
    )
    rates = ("tokens_per_s", "latency", "goodput")
    yield claim(
        "at most {slower:.0f} % slower, at up to {fewer:.0f} % fewer tokens per second",
        slower=100 * (max(slowdown(cell, "latency") for cell in uneven) - 1),
        fewer=100 * (1 - min(_ratio(cell, *rates) for cell in uneven)),
    )
    worse = max(uneven, key=lambda cell: slowdown(cell, "latency") / slowdown(cell, "goodput"))
    yield claim(
        "`latency` is slower ({latency:.2f} against {goodput:.2f})",
        **{policy: slowdown(worse, policy) for policy in POLICIES},
    )
    single = [cell for cell in cells if _is_uneven(cell) and cell["phase"].startswith("low")]
    yield claim(
        "both lose {x.lowest:.0f} to {x.highest:.0f} %",
        x=Spread(slowdown(cell, "goodput") for cell in single).gain_percent(),
    )
    (h200,) = (
        cell
        for cell in cells
        if (cell["profile"], cell["phase"]) == ("7b-h200", "middle predictable")
    )
    yield claim("({x:.2f} on the H200 profile", x=slowdown(h200, "latency"))


def slowdown(cell: Mapping[str, Any], policy: str) -> float:
    """P99 time per output token of the policy, over that of the best fixed length."""
    arms = cell["arms"]
    best = arms[_best_length(cell, "tpot_p99_ms")]["tpot_p99_ms"]
    return float(arms[policy]["tpot_p99_ms"] / best)


def _is_uneven(cell: Mapping[str, Any]) -> bool:
    """Whether the requests of the phase differ."""
    return cell["phase"].endswith(("mixed", "varied"))


def _is_busy(cell: Mapping[str, Any]) -> bool:
    """The loads at which the document compares: the middle one, and on CPUs the high one too."""
    is_cpu = cell["profile"].startswith("cpu")
    return cell["phase"].startswith(("middle", "high") if is_cpu else "middle")


def _ratio(cell: Mapping[str, Any], figure: str, arm: str, reference: str) -> float:
    return float(cell["arms"][arm][figure] / cell["arms"][reference][figure])


def _best_length(cell: Mapping[str, Any], figure: str) -> str:
    arms = cell["arms"]
    return min((name for name in arms if name.startswith("K=")), key=lambda n: arms[n][figure])
