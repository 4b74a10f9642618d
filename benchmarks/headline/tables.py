"""The rows of the report as claims: text with a field for every figure.

The report prints them, and the page in docs/ that repeats them is checked against the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.claims.claim import Claim, claim
from benchmarks.governor.interleaved.analysis import Range, range_of
from benchmarks.headline.arms import LAYOUT, LLAMACPP, PACELINE, PLAIN, with_scheme
from benchmarks.headline.cells import CACHED, SATURATED, SINGLE
from benchmarks.headline.comparisons import (
    CONTROLS,
    BestStatic,
    best_static,
    of_best_static,
    second_control,
    throughput_cells,
    usd_per_million_tokens,
)
from benchmarks.headline.measured import (
    LATENCY_P50,
    REQUESTS_PER_S,
    TOKENS_PER_S,
    TPOT_P99,
    TTFT_P50,
    Figure,
    Floats,
    Measured,
)
from benchmarks.headline.published import PUBLISHED, Published, published_columns
from paceline.foundation.quantized.schemes import SCHEMES

SERVER_COLUMNS: tuple[tuple[str, Figure, str, str], ...] = (
    ("tokens/s, 1 user", TOKENS_PER_S, SINGLE, ".0f"),
    ("tokens/s, 16 users", TOKENS_PER_S, SATURATED, ".0f"),
    ("tokens/s, 64 users", TOKENS_PER_S, "chat-64", ".0f"),
    ("requests/s, 16 users", REQUESTS_PER_S, SATURATED, ".2f"),
    ("P50 latency, 16 users, ms", LATENCY_P50, SATURATED, ".0f"),
    ("P99 per output token, 16 users, ms", TPOT_P99, SATURATED, ".1f"),
    ("P50 time to first token, cached system prompt, ms", TTFT_P50, CACHED, ".1f"),
)
"""Title, figure, cell and format."""
TIMES = "\N{MULTIPLICATION SIGN}"
_UNKNOWN = "not measured"
_NOT_RUN = "\N{EN DASH}"
_REACHED, _PARTLY, _SHORT = "reached", "reached in some repeats", "short"
NOT_REACHED = (_PARTLY, _SHORT)
"""Verdicts that need a reason."""
_Cell = tuple[Floats, str]
"""The values by repeat, and their format."""


def verdict(row: Published, values: Floats | None) -> str:
    """Whether every repeat, some repeats or none reach the published ratio."""
    if values is None:
        return _UNKNOWN
    if values.min() >= row.target:
        return _REACHED
    return _PARTLY if values.max() >= row.target else _SHORT


def published_head(row: Published) -> str:
    """The beginning of the row, whose numbers are the publication's or settings."""
    return f"| {row.what} | {row.source} | {_target(row)} |"


def published_rows(measured: Measured) -> Iterator[Claim]:
    """One row per published figure, with the columns of `published_columns`."""
    for row in PUBLISHED:
        text = published_head(row)
        figures: dict[str, object] = {}
        for number, column in enumerate(published_columns(measured)):
            values = row.measure(column)
            if values is None:
                text += f" {_UNKNOWN} |"
                continue
            times = "" if row.is_fraction else TIMES
            text += f" {_field(f'm{number}', '.2f', times)}, {verdict(row, values)} |"
            figures[f"m{number}"] = range_of(values)
        yield claim(text, **figures)


def server_header(measured: Measured) -> list[str]:
    columns = [title for title, _, cell, _ in SERVER_COLUMNS if cell in measured.cells]
    if _has_limit(measured):
        columns += ["limit, tokens/s of 1 user", "share of the limit"]
    return ["server", *columns, *(["$ per 1M output tokens"] if _has_price(measured) else [])]


def server_rows(measured: Measured, usd_per_hour: float) -> Iterator[Claim]:
    """One row per arm with its figures."""
    for arm in measured.arms:
        cells: list[_Cell] = [
            (measured.of(figure, arm, cell), spec)
            for _, figure, cell, spec in SERVER_COLUMNS
            if cell in measured.cells
        ]
        if _has_limit(measured):
            limit = measured.limit_tokens_per_s(arm)
            assert limit is not None
            cells += [(limit, ".0f"), (measured.of(TOKENS_PER_S, arm, SINGLE) / limit, ".2f")]
        if _has_price(measured):
            cells.append((usd_per_million_tokens(measured, arm, usd_per_hour), ".3f"))
        yield _row(f"`{arm}`", cells)


def ratio_header(measured: Measured) -> list[str]:
    return ["output tokens/s", *throughput_cells(measured)]


def ratio_rows(measured: Measured) -> Iterator[Claim]:
    """Output tokens/s over other arms of the run.

    These are plain vLLM, the layout with the same weights undrafted, llama.cpp, Paceline with its
    defaults, and the best static length.
    """
    cells = throughput_cells(measured)
    for arm in measured.arms:
        if arm != PLAIN:
            yield _gain_row(measured, arm, PLAIN, cells)
    for scheme in (None, *SCHEMES):
        base, full = with_scheme(LAYOUT, scheme), with_scheme(PACELINE, scheme)
        if base in measured.arms:
            for arm in measured.arms:
                if arm == full or arm.startswith(f"{base}+"):
                    yield _gain_row(measured, arm, base, cells)
    for base in (PACELINE, LLAMACPP, f"{LLAMACPP}+lookup"):
        if base in measured.arms:
            for arm in measured.arms:
                if arm.startswith(PACELINE) and arm != base:
                    yield _gain_row(measured, arm, base, cells)
    best = best_static(measured)
    if best is not None:
        yield from _static_rows(measured, best, cells)


def _gain_row(
    measured: Measured, arm: str, base: str, cells: Sequence[str], spec: str = ".2f"
) -> Claim:
    gains = [measured.gain(TOKENS_PER_S, arm, base, cell) for cell in cells]
    return _row(f"`{arm}` / `{base}`", [(gain, spec) for gain in gains], TIMES)


def _static_rows(measured: Measured, best: BestStatic, cells: Sequence[str]) -> Iterator[Claim]:
    static = {cell: of_best_static(measured, best, TOKENS_PER_S, cell) for cell in cells}
    over = [static[cell] / measured.of(TOKENS_PER_S, PLAIN, cell) for cell in cells]
    yield _row(f"best static length / `{PLAIN}`", [(gain, ".2f") for gain in over], TIMES)
    if PACELINE in measured.arms:
        lead = [measured.of(TOKENS_PER_S, PACELINE, cell) / static[cell] for cell in cells]
        yield _row("`paceline` / best static length", [(gain, ".2f") for gain in lead], TIMES)


def noise_header(measured: Measured) -> list[str]:
    return ["the same server twice", *throughput_cells(measured)]


def noise_rows(measured: Measured) -> Iterator[Claim]:
    """The ratio of each two equal servers."""
    for first in CONTROLS:
        again = second_control(measured, first)
        if again is not None:
            yield _gain_row(measured, again, first, throughput_cells(measured), ".3f")


def all_claims(document: Mapping[str, Any], measured: Measured) -> Iterator[Claim]:
    """Every row of the report of this result."""
    yield from published_rows(measured)
    yield from server_rows(measured, document["plan"]["usd_per_hour"])
    yield from ratio_rows(measured)
    yield from noise_rows(measured)


def published_texts() -> tuple[str, ...]:
    """Texts of the rows whose numbers come from publications and settings."""
    return tuple(published_head(row) for row in PUBLISHED)


def _row(head: str, cells: Sequence[_Cell], times: str = "") -> Claim:
    """A dash stands for a cell that the arm does not run."""
    texts, figures = [], {}
    for number, (values, spec) in enumerate(cells):
        is_run = not np.isnan(values).any()
        texts.append(_field(f"f{number}", spec, times) if is_run else _NOT_RUN)
        if is_run:
            figures[f"f{number}"] = _range(values)
    return claim(f"| {head} | {' | '.join(texts)} |", **figures)


def _field(name: str, spec: str, times: str) -> str:
    return f"{{{name}.mean:{spec}}}{times} ({{{name}.lowest:{spec}}} to {{{name}.highest:{spec}}})"


def _range(values: Floats) -> Range:
    return range_of(np.asarray(values))


def _target(row: Published) -> str:
    return f"{row.target:g}" if row.is_fraction else f"{row.target:g}{TIMES}"


def _has_price(measured: Measured) -> bool:
    return SATURATED in measured.cells


def _has_limit(measured: Measured) -> bool:
    return SINGLE in measured.cells and all(
        measured.limit_tokens_per_s(arm) is not None for arm in measured.arms
    )
