"""The claims of docs/experiments/headline.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/headline.md"
NOT_MEASURED = {
    "setting": ("the model wrote 200 prompts itself", "at most 64 tokens"),
    "name": ("| GPTQ, 4 bits |",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("quality-smollm2-2026-12-01.json")
    yield claim("Over {num_conversations} conversations", **result["prompts"])
    limit = 100 * result["limits"]["perplexity_increase"]
    for name, candidate in zip(
        ("W8A8, round to nearest", "GPTQ, 4 bits"), result["candidates"], strict=True
    ):
        assert candidate["decision"]["verdict"] == "rejected"
        fidelity = candidate["fidelity"]
        increase = fidelity["perplexity_increase"]
        yield claim(
            "| {name} | {value:+.1f} % ({low:+.1f} to {high:+.1f}) | +{limit:.0f} % "
            "| {same:.1f} % |",
            name=name,
            **{key: 100 * increase[key] for key in ("value", "low", "high")},
            limit=limit,
            same=100 * fidelity["agreement"],
        )
