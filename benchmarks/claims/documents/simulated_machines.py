"""The claims of docs/experiments/simulated-machines.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.spread import Spread

DOCUMENT = "docs/experiments/simulated-machines.md"
NOT_MEASURED = {"setting": ("n = 3 seeds",), "target": ("target of 115 %",)}
RESULT = "governor-simulator-2026-11-21.json.gz"
ROWS = (
    ("7B on one H200, draft model", "7b-h200", "draft"),
    ("the same, n-gram", "7b-h200", "ngram"),
    ("72B on eight H100, draft model", "72b-tp8-h100", "draft"),
    ("the same, n-gram", "72b-tp8-h100", "ngram"),
    ("twin on two CPU cores, draft model", "cpu-twin", "draft"),
    ("the same, n-gram", "cpu-twin", "ngram"),
    ("small pair on two CPU cores, draft model", "cpu-small", "draft"),
    ("the same, n-gram", "cpu-small", "ngram"),
)
"""Head of the row, profile, drafter as the result names it."""
TRACES = ("shifting", "mixed")


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    result = read(RESULT)
    for head, profile, drafter in ROWS:
        yield claim(
            f"| {head} | {_cell('shifting')} | {{steps}} | {_cell('mixed')} "
            f"| {_cell('shifting_single')} | {_cell('mixed_single')} |",
            steps=steps_to_adapt(result, profile, drafter),
            shifting=ratios(result, profile, drafter, "shifting", "of_oracle").percent(),
            mixed=ratios(result, profile, drafter, "mixed", "of_oracle").percent(),
            shifting_single=ratios(
                result, profile, drafter, "shifting", "of_best_single"
            ).percent(),
            mixed_single=ratios(result, profile, drafter, "mixed", "of_best_single").percent(),
        )
    single = [
        ratios(result, profile, drafter, trace, "of_best_single")
        for _, profile, drafter in ROWS
        for trace in TRACES
    ]
    yield claim(
        "In {num_lost} of the {num_cells} cells `goodput` loses to the best single length",
        num_lost=sum(found.mean < 1 for found in single),
        num_cells=len(single),
    )
    lost = [100 * (1 - found.mean) for found in single if found.mean < 1]
    yield claim("by {least:.1f} to {most:.1f} %", least=min(lost), most=max(lost))
    for trace in TRACES:
        threshold = Spread(
            ratios(result, profile, drafter, trace, "of_oracle", "threshold").mean
            for _, profile, drafter in ROWS
        ).percent()
        yield claim(
            f"{{found.lowest:.1f}} to {{found.highest:.1f}} % ({trace})",
            found=threshold,
        )
    long = [
        phase_fraction(cell, "middle predictable long")
        for cell in _cells(result, "cpu-small", "draft", "shifting")
    ]
    yield claim(
        "({found.mean:.0f} % of the better of no speculation and the best length in that phase; "
        "{found.lowest:.0f} to {found.highest:.0f})",
        found=Spread(long).percent(),
    )
    hard = Spread(
        1 - phase_fraction(cell, "high hard", arm="K=0", against=("none",))
        for profile in ("7b-h200", "72b-tp8-h100")
        for cell in _cells(result, profile, "draft", "shifting")
    ).percent()
    yield claim(
        "at 256 requests on hard text an engine held at 0 is {hard.lowest:.0f} to "
        "{hard.highest:.0f} % slower",
        hard=hard,
    )


def ratios(
    result: Mapping[str, Any],
    profile: str,
    drafter: str,
    trace: str,
    figure: str,
    arm: str = "goodput",
) -> Spread:
    """A figure of one cell, one value per seed."""
    return Spread(cell["ratios"][arm][figure] for cell in _cells(result, profile, drafter, trace))


def steps_to_adapt(result: Mapping[str, Any], profile: str, drafter: str) -> str:
    """The most steps to adapt on the shifting trace over all seeds."""
    found = [
        cell["ratios"]["goodput"]["slowest_to_adapt_steps"]
        for cell in _cells(result, profile, drafter, "shifting")
    ]
    return "never" if None in found else str(max(found))


def phase_fraction(
    cell: Mapping[str, Any], phase: str, *, arm: str = "goodput", against: tuple[str, ...] = ()
) -> float:
    """Tokens/s of the arm in a phase, over the best of `against`: by default none and all K."""
    rates = {
        found["summary"]["arm"]: one["tokens_per_s"]
        for found in cell["comparison"]["arms"]
        for one in found["summary"]["phases"]
        if one["name"] == phase
    }
    others = against or tuple(name for name in rates if name == "none" or name.startswith("K="))
    return float(rates[arm] / max(rates[name] for name in others))


def _cells(
    result: Mapping[str, Any], profile: str, drafter: str, trace: str
) -> list[Mapping[str, Any]]:
    key = (profile, drafter, trace)
    return [
        cell for cell in result["cells"] if (cell["profile"], cell["drafter"], cell["trace"]) == key
    ]


def _cell(name: str) -> str:
    return f"{{{name}.mean:.1f}} % ({{{name}.lowest:.1f}} to {{{name}.highest:.1f}})"
