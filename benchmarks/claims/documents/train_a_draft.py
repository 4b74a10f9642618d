"""The claims of docs/how-to/train-a-draft.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/train-a-draft.md"
NOT_MEASURED = {
    "setting": ("six layers", "95 %", "temperature 1 |"),
    "target": ("stay below 0.6",),
}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from _trained(read("draft-training-tasks-2026-11-28.json"))


def _trained(result: Mapping[str, Any]) -> Iterator[Claim]:
    """The training, its comparison on held-out chats, and the served acceptance."""
    provenance = result["training"]["provenance"]
    yield claim(
        "{num_trained} chats, in {minutes:.0f} minutes of training",
        num_trained=provenance["origin"]["num_trained"],
        minutes=provenance["training"]["seconds"] / 60,
    )
    yield claim("{num_held_out} chats", num_held_out=provenance["origin"]["num_held_out"])
    held_out = provenance["held_out"]
    rows = [(_label(one["sampling"]), one) for one in held_out["by_sampling"]]
    for label, one in [*rows, ("both", held_out["overall"])]:
        yield claim(
            "| {label} | {before[value]:.2f} | {after[value]:.2f} | {gain[value]:+.2f} "
            "({gain[low]:+.2f} to {gain[high]:+.2f}) |",
            label=label,
            before=one["present"]["acceptance_rate"],
            after=one["candidate"]["acceptance_rate"],
            gain=one["difference"]["acceptance_rate"],
        )
    yield claim("{num_tests} other chats at a fixed length of {draft_length}", **result["settings"])
    yield claim("differ by {largest_served_difference:.3f} at most", **result["summary"])


def _label(sampling: Mapping[str, Any]) -> str:
    temperature = sampling["temperature"]
    return f"temperature {temperature:g}" if temperature else "greedy"
