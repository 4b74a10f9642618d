"""The claims of docs/how-to/swap-the-draft.md."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.claims.claim import Claim, ReadResult, claim

DOCUMENT = "docs/how-to/swap-the-draft.md"
NOT_MEASURED = {"setting": ("two cores", "4 requests at a time")}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read("draft-swap-2026-11-24.json")
    total, runs = result["total"], result["runs"]
    seconds = [run["swap"]["duration_s"] for run in runs]
    yield claim(
        "{num_swaps} swaps, of {one:.0f} s and {two:.0f} s",
        num_swaps=len(runs), one=seconds[0], two=seconds[1],
    )  # fmt: skip
    yield claim(
        "{num_requests_during_swap:,} requests, of which {num_failed_requests} failed", **total
    )
    yield claim(
        "{num_changed_answers} of {num_compared:,} greedy answers changed, "
        "with {num_near_ties} near-ties",
        **total,
    )
    yield claim(
        "a first token took {first:.2f} s at most, "
        "and no stream was silent for longer than {silence:.2f} s",
        first=max(run["longest_time_to_first_token_s"] for run in runs),
        silence=max(run["longest_silence_s"] for run in runs),
    )
    for name, path in (
        ("acceptance rate", ("acceptance_rate",)),
        ("tokens per step", ("acceptance_length",)),
        ("output tokens/s", ("output_tokens_per_s",)),
        ("requests/s within the objectives", ("goodput", "requests_per_s")),
    ):
        spec = ":.0f" if name.startswith("output") else ":.2f"
        cells = {}
        for number, run in enumerate(runs):
            for when in ("before", "after"):
                value = run[when]
                for key in path:
                    value = value[key]
                cells[f"{when}{number}"] = value
        fields = ("before0", "after0", "before1", "after1")
        row = " | ".join(f"{{{field}{spec}}}" for field in fields)
        yield claim(f"| {name} | {row} |", **cells)
