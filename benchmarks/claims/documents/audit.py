"""The claims of docs/how-to/audit.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/audit.md"
NOT_MEASURED = {
    "setting": (
        "2 virtual cores",
        "vLLM 0.32",
        "with 96 sampled answers",
    )
}
STOCK = "audit-engine-stock-2026-11-28.json"
STOCK_ENDED = "audit-engine-stock-2026-11-23.json"
PACELINE = "audit-engine-paceline-2026-11-28.json.gz"
EARLY_ENDS = "audit-engine-paceline-2026-11-30.json.gz"
BUSY = "audit-engine-paceline-2026-11-23.json.gz"

_VERDICTS = "{lossy} were `lossy`, {lossless} `lossless`, and {undecided} `undecided`"


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    one, two = (_figures(read(name)) for name in (STOCK, PACELINE))
    for row in (
        "| verdict | `{one[verdict]}` | `{two[verdict]}` |",
        "| ended after | {one[seconds]:.0f} s | {two[seconds]:.0f} s |",
        "| sampled answers | {one[num_answers]:,} | {two[num_answers]:,} |",
        "| drafted tokens judged | {one[num_drafted]:,} | {two[num_drafted]:,} |",
        "| log10 of the e-value | {one[log10_e]:.1f} | {two[log10_e]:.1f} |",
        "| greedy tokens, wrong ones | {one[num_greedy]}, {one[num_wrong]} "
        "| {two[num_greedy]}, {two[num_wrong]} |",
    ):
        yield claim(row, one=one, two=two)
    yield from _ended(_figures(read(STOCK_ENDED)))
    yield from _many([audit["report"] for audit in read(PACELINE)["audits"]])
    early = [audit["report"] for audit in read(EARLY_ENDS)["audits"]]
    yield claim(
        "raised no alarm: {lossy} were `lossy`, {lossless} `lossless`, and {undecided} "
        "`undecided`, because its time",
        **_verdicts(early),
    )
    yield from _many_busy([audit["report"] for audit in read(BUSY)["audits"]])


def _many(reports: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    yield claim(
        f"{_VERDICTS}. Each",
        **_verdicts(reports),
    )
    seconds = [one["seconds"] for one in reports]
    drafted = min(one["sampled"]["num_drafted_tokens"] for one in reports)
    yield claim(
        "took {low:.0f} to {high:.0f} s and judged {drafted:,} drafted tokens or more",
        low=min(seconds), high=max(seconds), drafted=drafted,
    )  # fmt: skip
    bias = max(one["error_rates"]["smallest_bias"] for one in reports)
    yield claim("enough to find a bias of {bias:.0%}", bias=bias)


def _many_busy(reports: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    undecided = [one["reasons"] for one in reports if one["verdict"] == "undecided"]
    num_idle = sum("no drafts were seen" in " ".join(reasons) for reasons in undecided)
    yield claim(
        f"{_VERDICTS}. In {{num_idle}} of these",
        num_idle=num_idle, **_verdicts(reports),
    )  # fmt: skip
    yield claim("in {num_late} the minute was over", num_late=len(undecided) - num_idle)


def _verdicts(reports: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        verdict: sum(one["verdict"] == verdict for one in reports)
        for verdict in ("lossy", "lossless", "undecided")
    }


def _ended(figures: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim("judged {num_drafted} drafted tokens", **figures)
    yield claim("ended after {seconds:.0f} s, `{verdict}`", **figures)


def _figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of the first audit of `benchmarks/audit_engines.py`."""
    report = result["audits"][0]["report"]
    return {
        "verdict": report["verdict"],
        "seconds": report["seconds"],
        "num_answers": report["sampled"]["num_answers"],
        "num_drafted": report["sampled"]["num_drafted_tokens"],
        "log10_e": report["sampled"]["log10_e_value"],
        "num_greedy": report["greedy"]["num_tokens"],
        "num_wrong": report["greedy"]["num_wrong"],
    }
