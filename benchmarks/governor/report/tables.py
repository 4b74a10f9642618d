"""Markdown tables, and the figures that stand in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.governor.report.measured import Estimate, Floats


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table with the first column aligned to the left."""
    rule = ["---", *["--:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows))


def render_percent(found: Estimate) -> str:
    """The mean, with lowest and highest if there are several repeats."""
    if not found.has_range:
        return f"{found.mean:.1%} (one repeat)"
    return f"{found.mean:.1%} ({found.lowest:.1%} to {found.highest:.1%})"


def render_rate(found: Estimate) -> str:
    """The mean, with the range over repeats if there are several."""
    if not found.has_range:
        return f"{found.mean:.0f}"
    return f"{found.mean:.0f} ({found.lowest:.0f}-{found.highest:.0f})"


def render_median_ms(values: Floats) -> str:
    """The median of the known values; a dash without any."""
    known = values[~np.isnan(values)]
    return f"{np.median(known):.0f}" if len(known) else "-"


def render_or_never(value: float | None, form: str) -> str:
    """The value in this format; `never` for None."""
    return "never" if value is None else format(value, form)
