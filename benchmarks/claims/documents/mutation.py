"""The claims of docs/experiments/mutation.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/mutation.md"
NOT_MEASURED = {
    "setting": ("At most 40 changes of each module", "at most 25 of each", "95 % confidence"),
    "observed": ("noticed 732; in the module that runs a request, 9 of 25 changes survived",),
}
RESULTS = ("mutation-governor-2026-11-22.json", "mutation-gateway-2026-11-23.json")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    for name in RESULTS:
        yield from _claims_of(read(name))


def _claims_of(result: Mapping[str, Any]) -> Iterator[Claim]:
    folders = defaultdict(list)
    for one in result["files"]:
        if not one["num_tested"]:
            continue  # declarations only
        parent = PurePosixPath(one["file"]).parent
        folders[str(parent.relative_to("src/paceline"))].append(one)
    for folder, files in folders.items():
        yield claim(
            f"| `{folder}` | {{modules}} | {{killed}} of {{tested}} | {{lowest:.0f}} % |",
            modules=len(files),
            killed=sum(one["num_killed"] for one in files),
            tested=sum(one["num_tested"] for one in files),
            lowest=Spread(100 * one["num_killed"] / one["num_tested"] for one in files).lowest,
        )
    share = {name: 100 * value for name, value in result["killed_share"].items()}
    yield claim(
        "Of {num_tested:,} changes tested, {num_killed:,} were noticed: an estimated "
        "{estimate:.1f} % ({low:.1f} to {high:.1f}, 95 % confidence) of all {num_mutants:,}",
        **share,
        **{name: result[name] for name in ("num_tested", "num_killed", "num_mutants")},
    )
    survivors = [one for file in result["files"] for one in file["survivors"]]
    yield claim(
        "{num} changes survived. For {explained} of them",
        num=len(survivors),
        explained=sum(bool(one["reason"]) for one in survivors),
    )
