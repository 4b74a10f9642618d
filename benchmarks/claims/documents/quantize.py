"""The claims of docs/how-to/quantize.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/how-to/quantize.md"
NOT_MEASURED = {"setting": ("vLLM 0.32", "two cores", "4-bit kernels")}
MODEL = "twin"
COMPILED = {
    "bfloat16": "bfloat16",
    "control": "control",
    "w8a8-bfloat16": "w8a8",
    "bfloat16+ngram": "bfloat16, n-grams",
    "w8a8-bfloat16+ngram": "w8a8, n-grams",
    "bfloat16+draft_model": "bfloat16, draft model",
    "w8a8-bfloat16+draft_model": "w8a8, draft model",
}
SHOWN = ("float32", "bfloat16", "control", "w8a8", "awq", "gptq", "fp8", "kv-fp8")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from _compiled(read("quantize-formats-twin-compiled-2026-11-28.json.gz"))
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


def _compiled(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The formats and drafters in turns, compiled."""
    rates = _rates(result["products"])
    yield claim("({n} rounds; median, lowest to highest", n=len(rates))
    for variant, name in COMPILED.items():
        yield claim(
            "| {name} | {rate.median:.0f} | {ratio.median:.2f} ({ratio.lowest:.2f} to "
            "{ratio.highest:.2f}) |",
            name=name,
            rate=Spread(one[variant] for one in rates),
            ratio=Spread(one[variant] / one["bfloat16"] for one in rates),
        )
    yield claim(
        "to the mean of both, W8A8 is {ratio:.2f} times as fast",
        ratio=Spread(
            2 * one["w8a8-bfloat16"] / (one["bfloat16"] + one["control"]) for one in rates
        ).median,
    )
    [product] = [
        one for one in result["summaries"][MODEL]["products"] if one["drafter"] == "draft_model"
    ]
    yield claim(
        "gives {both_ratio:.2f} times what bfloat16 gives without drafts: {format_ratio:.2f} from "
        "the format times {speculation_ratio:.2f} from drafts would be {both_if_independent:.2f}, "
        "of which {kept:.0%} is kept",
        both_if_independent=product["format_ratio"] * product["speculation_ratio"],
        **product,
    )


def _rates(turns: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Tokens/s by variant, for each round."""
    rounds: dict[int, dict[str, float]] = {}
    for turn in turns:
        num_tokens = sum(request["num_tokens"] for request in turn["requests"])
        seconds = sum(request["seconds"] for request in turn["requests"])
        rounds.setdefault(turn["round"], {})[turn["variant"]] = num_tokens / seconds
    return list(rounds.values())
