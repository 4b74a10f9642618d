"""The claims of docs/experiments/losslessness.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/losslessness.md"
NOT_MEASURED = {
    "setting": (
        "varied between 0 and",
        "It stayed at 0 for some stretches",
        "top-p 0.9, top-k 20",
        "finds a bias of 5 %",
    ),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("losslessness-2026-11-21.json")
    greedy = result["greedy"]
    yield claim(
        "answered {num_prompts:,} prompts (held-out ones and beginnings of these). The draft "
        "length varied between 0 and {ceiling}, with {changes} changes in {steps} steps.",
        num_prompts=greedy["num_prompts"],
        ceiling=result["governor"]["ceiling"],
        changes=greedy["draft_length_changes_total"],
        steps=greedy["steps_total"],
    )
    yield claim(
        "**{num_identical_outputs:,} of {num_prompts:,}** outputs are the target's own; "
        "{num_tokens:,} tokens, {no} near-tie",
        **greedy,
        no="no" if greedy["num_near_ties"] == 0 else str(greedy["num_near_ties"]),
    )
    cool, hot = result["sampled"]
    yield claim(
        "| temperature {temperature}, top-p {top_p}, top-k {top_k} | G-test against the target's "
        "exact distribution after one prompt: p = {p_value:.2f} ({num_samples:,} samples) |",
        **cool,
    )
    yield claim(
        "| temperature {temperature}, top-p {top_p}, top-k {top_k} | p = {p_value:.2f} "
        "({num_samples:,} samples) |",
        **hot,
    )
