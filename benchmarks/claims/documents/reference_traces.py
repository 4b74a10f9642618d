"""The claims of docs/experiments/reference-traces.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/reference-traces.md"
NOT_MEASURED = {
    "setting": ("n = 3 seeds", "3 % noise", "phases of 30 s", "two CPU cores"),
    "definition": ("95 % of the best steady rate",),
}
RESULT = "reference-traces-simulator-2026-11-23.json"
TRACES = ("easy-hard-easy", "load-staircase", "mixed-chat")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(RESULT)
    for trace in TRACES:
        cells = [cell for cell in result["cells"] if cell["trace"] == trace]
        for arm in cells[0]["arms"]:
            yield claim(
                f"| {arm} | {{tokens.mean:.0f}} | {_range('oracle')} | {_range('by_phase')} | "
                f"{_range('worst')} | {{worst_phase}} | {{steps}} |",
                tokens=figures(cells, arm, "tokens_per_s"),
                oracle=figures(cells, arm, "fraction_of_oracle").percent(),
                by_phase=figures(cells, arm, "mean_phase_fraction").percent(),
                worst=figures(cells, arm, "worst_phase_fraction").percent(),
                worst_phase=worst_phase(cells, arm),
                steps=steps_to_adapt(cells, arm),
            )


def figures(cells: Sequence[Mapping[str, Any]], arm: str, figure: str) -> Spread:
    """A figure of one arm, one value per seed."""
    return Spread(cell["arms"][arm][figure] for cell in cells)


def worst_phase(cells: Sequence[Mapping[str, Any]], arm: str) -> str:
    """The name of the lowest phase of all seeds."""
    lowest = min(cells, key=lambda cell: float(cell["arms"][arm]["worst_phase_fraction"]))
    return str(lowest["arms"][arm]["worst_phase"])


def steps_to_adapt(cells: Sequence[Mapping[str, Any]], arm: str) -> str:
    """The most steps to adapt of all seeds; an engine without a drafter has no length to find."""
    if arm == "none":
        return "-"
    steps = [cell["arms"][arm]["slowest_to_adapt_steps"] for cell in cells]
    return "never" if None in steps else str(max(steps))


def _range(name: str) -> str:
    return f"{{{name}.mean:.1f}} % ({{{name}.lowest:.1f}} to {{{name}.highest:.1f}})"
