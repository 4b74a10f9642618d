"""The claims of docs/how-to/quantize.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/quantize.md"
NOT_MEASURED = {"setting": ("vLLM 0.32", "two cores", "4-bit kernels")}
MODEL = "twin"
SHOWN = ("float32", "bfloat16", "control", "w8a8", "awq", "gptq", "fp8", "kv-fp8")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("quantize-formats-twin-2026-11-24.json.gz")
    summary = result["summaries"][MODEL]
    for name in SHOWN:
        row = summary["rows"]["w8a8-bfloat16" if name == "w8a8" else name]
        yield claim(
            "| {name} | {tokens:.0f} | {ratio:.2f} ({low:.2f} to {high:.2f}) | {perplexity:.2f} "
            "| {same:.0%} |",
            name=name,
            tokens=row["tokens_per_s"],
            ratio=row["ratio"],
            low=row["ratio_min"],
            high=row["ratio_max"],
            perplexity=row["perplexity"],
            same=row["greedy_same"],
        )
    for product in summary["products"]:
        yield claim(
            "{both_ratio:.2f} times with {drafter}", both_ratio=product["both_ratio"],
            drafter={"ngram": "n-grams", "draft_model": "the draft model"}[product["drafter"]],
        )  # fmt: skip
