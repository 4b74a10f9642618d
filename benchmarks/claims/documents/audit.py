"""The claims of docs/how-to/audit.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/audit.md"
NOT_MEASURED = {
    "setting": (
        "2 virtual cores",
        "vLLM 0.32",
        "the default of 300 s",
        "The default of 20 %",
        "with 96 sampled answers",
    )
}
STOCK = "audit-engine-stock-2026-11-23-2.json"
STOCK_ENDED = "audit-engine-stock-2026-11-23.json"
PACELINE = "audit-engine-paceline-2026-11-23.json"
TWENTY = "audit-engine-paceline-2026-11-23.json.gz"


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
    yield claim("its limit was {max_seconds:.0f} s", **two)
    yield claim("would have found a bias of {bias:.0%} and more", bias=two["smallest_bias"])
    yield claim("takes about {num_tokens:,} tokens", **two)
    yield claim("about {in_all_s} s in all at this rate", **two)
    yield from _ended(_figures(read(STOCK_ENDED)))
    reports = [audit["report"] for audit in read(TWENTY)["audits"]]
    undecided = [one["reasons"] for one in reports if one["verdict"] == "undecided"]
    num_idle = sum("no drafts were seen" in " ".join(reasons) for reasons in undecided)
    num_lossy, num_lossless = (
        sum(one["verdict"] == verdict for one in reports) for verdict in ("lossy", "lossless")
    )
    yield claim(
        "{num_lossy} were `lossy`, {num_lossless} `lossless`, and {num_undecided} `undecided`. "
        "In {num_idle} of these",
        num_lossy=num_lossy,
        num_lossless=num_lossless,
        num_undecided=len(undecided),
        num_idle=num_idle,
    )
    yield claim("in {num_late} the minute was over", num_late=len(undecided) - num_idle)


def _ended(figures: Mapping[str, Any]) -> Iterator[Claim]:
    yield claim("judged {num_drafted} drafted tokens", **figures)
    yield claim("ended after {seconds:.0f} s, `{verdict}`", **figures)


def _figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """Of the first audit of `benchmarks/audit_engines.py`."""
    report = result["audits"][0]["report"]
    found = re.search(r"takes about (\d+);.*--max-seconds (\d+)\)$", " ".join(report["reasons"]))
    return {
        "verdict": report["verdict"],
        "seconds": report["seconds"],
        "max_seconds": result["settings"]["max_seconds"],
        "num_answers": report["sampled"]["num_answers"],
        "num_drafted": report["sampled"]["num_drafted_tokens"],
        "log10_e": report["sampled"]["log10_e_value"],
        "num_greedy": report["greedy"]["num_tokens"],
        "num_wrong": report["greedy"]["num_wrong"],
        "smallest_bias": report["error_rates"]["smallest_bias"],
        "num_tokens": None if found is None else int(found[1]),
        "in_all_s": None if found is None else int(found[2]),
    }
