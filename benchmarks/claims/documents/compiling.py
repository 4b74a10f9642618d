"""The claims of docs/experiments/compiling.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.claims.claim import Claim, ReadResult
from benchmarks.headline.measured import read_measured
from benchmarks.headline.tables import ratio_rows

DOCUMENT = "docs/experiments/compiling.md"
NOT_MEASURED = {
    "setting": ("a static length of 4",),
    "observed, without a raw result": (
        "40 held-out chats, with the draft length held at 0, 4, 8, 2 and 0 again",
    ),
}
SHOWN = (
    "| `vllm#again` / `vllm` |",
    "| `vllm+layout+eager` / `vllm` |",
    "| `vllm+layout` / `vllm` |",
    "| `paceline` / `vllm` |",
    "| `vllm+layout+eager` / `vllm+layout` |",
    "| `vllm+layout+K=4` / `vllm+layout` |",
    "| `paceline` / `vllm+layout` |",
)


EARLIER = ("| `vllm+layout+K=4` / `vllm+layout` |", "| `paceline` / `vllm+layout` |")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from shown_rows(read, "headline-compiled-2026-11-23-2.json.gz", SHOWN)
    yield from shown_rows(read, "headline-compiled-2026-11-23.json.gz", EARLIER)


def shown_rows(read: ReadResult, name: str, beginnings: Sequence[str]) -> Iterator[Claim]:
    """The rows of ratios of a result of the headline benchmark that begin in one of these ways."""
    for row in ratio_rows(read_measured(read(name))):
        if row.template.startswith(tuple(beginnings)):
            yield row
