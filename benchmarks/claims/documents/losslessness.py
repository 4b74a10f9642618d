"""The claims of docs/experiments/losslessness.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/experiments/losslessness.md"
NOT_MEASURED = {
    "setting": (
        "varies between 0 and 8",
        "It stays at 0 for some stretches",
        "exceeds 1,000 with a probability of 1/1000 at most",
        "with probability 0.95",
        "thresholds 5 % too low",
        "thresholds 5 % too high",
    ),
}
_ROWS = {
    "greedy drafts": "draft model, most probable token",
    "sampled drafts": "draft model, sampled token",
    "n-gram": "n-gram",
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("losslessness-2026-11-22.json.gz")
    yield claim("answered {num_prompts:,} prompts", **result["settings"])
    for drafter, greedy in result["greedy"].items():
        yield claim(
            "| {drafter} | **{num_identical:,} of {num_prompts:,}** | {num_tokens:,} "
            "| {num_near_ties} | {draft_length_changes_total} in {steps_total:,} steps |",
            drafter=drafter,
            **greedy,
        )
    for sampled in result["sampled"]:
        drafter = sampled["drafter"]
        suite, benchmark = result["power"][drafter]
        yield claim(
            "| {row} | {verdicts:,} | {e_value:.1g} | {low:.1f} % | {high:.1f} % "
            "| {suite_low:.1f} %, {suite_high:.1f} % |",
            row=_ROWS[drafter],
            verdicts=benchmark["verdicts"],
            e_value=sampled["e_value"],
            low=100 * benchmark["too_low"],
            high=100 * benchmark["too_high"],
            suite_low=100 * suite["too_low"],
            suite_high=100 * suite["too_high"],
        )
    low, high = (
        [found[side]["num_verdicts"] for found in result["injected"].values()] for side in (0, 1)
    )
    yield claim("were found after {found[0]:,}, {found[1]:,} and {found[2]:,} verdicts", found=low)
    yield claim("too high after {found[0]:,}, {found[1]:,} and {found[2]:,}.", found=high)
