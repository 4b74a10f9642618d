"""The raw result as arrays: every figure by arm, repeat and cell, and ratios of two arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity."""

    name: str
    title: str
    more_is_better: bool = False


TOKENS_PER_S = Figure("tokens_per_s", "output tokens/s", more_is_better=True)
REQUESTS_PER_S = Figure("requests_per_s", "requests/s", more_is_better=True)
LATENCY_P50 = Figure("latency_p50_ms", "P50 latency, ms")
TTFT_P50 = Figure("ttft_p50_ms", "P50 time to first token, ms")
TPOT_P50 = Figure("tpot_p50_ms", "P50 per output token, ms")
TPOT_P99 = Figure("tpot_p99_ms", "P99 per output token, ms")
PAUSE_P99 = Figure("pause_p99_ms", "P99 of the longest pause of an answer, ms")
FIGURES = (
    TOKENS_PER_S, REQUESTS_PER_S, LATENCY_P50, TTFT_P50, TPOT_P50, TPOT_P99, PAUSE_P99
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of one arm in one cell and repeat."""

    num_requests: int
    """Answered."""
    num_errors: int
    seconds: float
    prompt_tokens: int
    output_tokens: int
    drafted_tokens: int
    """0 for servers that do not speculate."""
    accepted_tokens: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The complete repeats of one model."""

    model: str
    arms: tuple[str, ...]
    cells: tuple[str, ...]
    values: Mapping[tuple[str, str], Floats]
    """By name of the figure and arm: (num_repeats, num_cells), NaN where it is not known."""
    counts: Mapping[tuple[str, str], tuple[Counts, ...]]
    """By arm and cell: (num_repeats,)."""
    rates_by_order: Mapping[tuple[str, int, int], tuple[int, float]]
    """By arm, column of the cell and slice: position in the slice, output tokens/s."""

    @property
    def num_repeats(self) -> int:
        return len(self.values[TOKENS_PER_S.name, self.arms[0]])

    def of(self, figure: Figure, arm: str, cell: str) -> Floats:
        """(num_repeats,)"""
        found: Floats = self.values[figure.name, arm][:, self.cells.index(cell)]
        return found

    def gain(self, figure: Figure, arm: str, base: str, cell: str) -> Floats:
        """How many times better `arm` is than `base`, repeat by repeat, (num_repeats,)."""
        mine, other = self.of(figure, arm, cell), self.of(figure, base, cell)
        ratio: Floats = mine / other if figure.more_is_better else other / mine
        return ratio

    def has(self, cell: str, *arms: str) -> bool:
        """Whether the cell and all these arms were measured."""
        return cell in self.cells and set(arms) <= set(self.arms)


def read_measured(document: Mapping[str, Any], model: str) -> Measured:
    """The complete repeats of one model.

    Raises ValueError if there is none, or an arm answered no request of a cell in a repeat.
    """
    plan = document["plan"]
    arms, cells = tuple(plan["arms"]), tuple(plan["cells"])
    runs = [run for run in document["runs"] if run["model"] == model]
    whole = len(arms) * len(cells) * plan["slices"]
    numbers = [run["repeat"] for run in runs]
    repeats = [number for number in sorted(set(numbers)) if numbers.count(number) == whole]
    if not repeats:
        raise ValueError(f"no repeat of {model} is complete: every repeat lacks the turn of an arm")
    by_place: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    by_order: dict[tuple[str, int, int], tuple[int, float]] = {}
    for run in runs:
        if run["repeat"] in repeats:
            by_place.setdefault((run["arm"], run["repeat"], run["cell"]), []).append(run)
            at = (run["arm"], cells.index(run["cell"]), run["slice"])
            by_order[at] = (run["position"], _tokens(run) / run["seconds"])
    values = {(figure.name, arm): np.full((len(repeats), len(cells)), np.nan)
              for figure in FIGURES for arm in arms}  # fmt: skip
    counts: dict[tuple[str, str], list[Counts]] = {}
    for arm in arms:
        for row, repeat in enumerate(repeats):
            for column, cell in enumerate(cells):
                turns = by_place[arm, repeat, cell]
                if not any(turn["requests"] for turn in turns):
                    raise ValueError(f"{arm} answered no request of {cell} in repeat {repeat}")
                counts.setdefault((arm, cell), []).append(_count(turns))
                for name, value in _figures(turns).items():
                    values[name, arm][row, column] = value
    return Measured(
        model=model,
        arms=arms,
        cells=cells,
        values=values,
        counts={at: tuple(found) for at, found in counts.items()},
        rates_by_order=by_order,
    )


def _figures(turns: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of the turns of one arm, cell and repeat, by name."""
    requests = [request for turn in turns for request in turn["requests"]]
    seconds = sum(turn["seconds"] for turn in turns)
    tpots = [(last - first) / (n - 1) for _, n, first, last, _ in requests if n > 1]
    pauses = [pause for *_, pause in requests if pause is not None]
    return {
        TOKENS_PER_S.name: sum(map(_tokens, turns)) / seconds,
        REQUESTS_PER_S.name: len(requests) / seconds,
        LATENCY_P50.name: _percentile([last for *_, last, _ in requests], 50),
        TTFT_P50.name: _percentile([first for _, _, first, _, _ in requests], 50),
        TPOT_P50.name: _percentile(tpots, 50),
        TPOT_P99.name: _percentile(tpots, 99),
        PAUSE_P99.name: _percentile(pauses, 99),
    }


def _count(turns: Sequence[Mapping[str, Any]]) -> Counts:
    return Counts(
        num_requests=sum(len(turn["requests"]) for turn in turns),
        num_errors=sum(turn["num_errors"] for turn in turns),
        seconds=sum(turn["seconds"] for turn in turns),
        prompt_tokens=sum(request[0] or 0 for turn in turns for request in turn["requests"]),
        output_tokens=sum(map(_tokens, turns)),
        drafted_tokens=sum(turn.get("drafted_tokens") or 0 for turn in turns),
        accepted_tokens=sum(turn.get("accepted_tokens") or 0 for turn in turns),
    )


def _tokens(turn: Mapping[str, Any]) -> int:
    return sum(request[1] for request in turn["requests"])


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else float("nan")
