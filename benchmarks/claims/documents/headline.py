"""The claims of docs/experiments/headline.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.claims.claim import Claim, ReadResult
from benchmarks.headline.tables import ratio_rows, read_models

DOCUMENT = "docs/experiments/headline.md"
NOT_MEASURED = {
    "setting": ("A static length of 4",),
    "target": ("the target is 0.98",),
}
SHOWN = (
    "| `vllm#again` / `vllm` |",
    "| `vllm+layout` / `vllm` |",
    "| `paceline` / `vllm` |",
    "| best static length / `vllm` |",
    "| `paceline` / `vllm+layout` |",
    "| `paceline` / best static length |",
)
SHOWN_OF_TWIN = (
    "| `vllm#again` / `vllm` |",
    "| `vllm+layout` / `vllm` |",
    "| `paceline` / `vllm` |",
    "| `vllm+layout+K=4` / `vllm+layout` |",
    "| `paceline` / `vllm+layout` |",
    "| `paceline` / best static length |",
)

SHOWN_OF_W8A8 = (
    "| `vllm#again` / `vllm` |",
    "| `vllm+layout+w8a8` / `vllm` |",
    "| `paceline` / `vllm` |",
    "| `paceline+w8a8` / `vllm` |",
    "| `vllm+layout+w8a8` / `vllm+layout` |",
    "| `paceline` / `vllm+layout` |",
    "| `paceline+w8a8` / `vllm+layout+w8a8` |",
    "| `paceline+w8a8` / `paceline` |",
)


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    yield from shown_rows(read, "headline-bundled-2026-11-23.json.gz", SHOWN)
    yield from shown_rows(read, "headline-twin-compiled-2026-11-24.json.gz", SHOWN_OF_TWIN)
    yield from shown_rows(read, "headline-twin-w8a8-quiet-2026-11-28.json.gz", SHOWN_OF_W8A8)


def shown_rows(read: ReadResult, name: str, beginnings: Sequence[str]) -> Iterator[Claim]:
    """The rows of ratios of a result of the headline benchmark that begin in one of these ways."""
    (measured,) = read_models(read(name))
    for row in ratio_rows(measured):
        if row.template.startswith(tuple(beginnings)):
            yield row
