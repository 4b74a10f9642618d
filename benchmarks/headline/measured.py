"""The raw result as arrays: every figure by arm, repeat and cell, and ratios of two arms."""

from __future__ import annotations

import itertools
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
FIGURES = (
    TOKENS_PER_S, REQUESTS_PER_S, LATENCY_P50, TTFT_P50, TPOT_P50, TPOT_P99
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
    """The complete repeats of a result."""

    arms: tuple[str, ...]
    cells: tuple[str, ...]
    values: Mapping[tuple[str, str], Floats]
    """By name of the figure and arm: (num_repeats, num_cells), NaN where it is not known, as in
    cells that the arm does not run."""
    counts: Mapping[tuple[str, str], tuple[Counts, ...]]
    """By arm and cell: (num_repeats,); empty for a cell that the arm does not run."""
    bandwidth_bytes_per_s: Floats
    """Of the memory, (num_repeats,); NaN in results that lack it."""
    read_bytes: Mapping[str, int]
    """Bytes of weights that the server reads for a token, by arm; empty where it is not known."""

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
        """Whether all these arms were measured in the cell."""
        return all(self.counts.get((arm, cell)) for arm in arms)

    def limit_tokens_per_s(self, arm: str) -> Floats | None:
        """Tokens/s of one user whose every token reads all weights once, (num_repeats,).

        The bandwidth of the memory / the bytes of the weights. Reading the KV cache is left out.
        A server that drafts verifies several tokens in one read, and may exceed it.
        """
        if arm not in self.read_bytes or np.isnan(self.bandwidth_bytes_per_s).any():
            return None
        found: Floats = self.bandwidth_bytes_per_s / self.read_bytes[arm]
        return found


def read_measured(document: Mapping[str, Any]) -> Measured:
    """The complete repeats of a result.

    Raises ValueError if there is none, or an arm answered no request of a cell in a repeat.
    """
    plan, runs = document["plan"], document["runs"]
    arms, cells = tuple(plan["arms"]), tuple(plan["cells"])
    skipped = {(arm, cell) for arm, cell in plan.get("skipped", ())}
    whole = (len(arms) * len(cells) - len(skipped)) * plan.get("slices", 1)
    numbers = [run["repeat"] for run in runs]
    repeats = [number for number in sorted(set(numbers)) if numbers.count(number) == whole]
    if not repeats:
        raise ValueError("no repeat is complete: every repeat lacks the turn of an arm")
    by_place: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["repeat"] in repeats:
            by_place.setdefault((run["arm"], run["repeat"], run["cell"]), []).append(run)
    values = {(figure.name, arm): np.full((len(repeats), len(cells)), np.nan)
              for figure in FIGURES for arm in arms}  # fmt: skip
    counts: dict[tuple[str, str], list[Counts]] = {}
    for arm, (row, repeat), (column, cell) in itertools.product(
        arms, enumerate(repeats), enumerate(cells)
    ):
        if (arm, cell) in skipped:
            continue
        turns = by_place[arm, repeat, cell]
        if not any(turn["requests"] for turn in turns):
            raise ValueError(f"{arm} answered no request of {cell} in repeat {repeat}")
        counts.setdefault((arm, cell), []).append(_count(turns))
        for name, value in _figures(turns).items():
            values[name, arm][row, column] = value
    bandwidth = document.get("bandwidth_bytes_per_s", {})
    return Measured(
        arms=arms,
        cells=cells,
        values=values,
        counts={at: tuple(found) for at, found in counts.items()},
        bandwidth_bytes_per_s=np.array([bandwidth.get(str(one), np.nan) for one in repeats]),
        read_bytes=document.get("read_bytes", {}),
    )


def _figures(turns: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of the turns of one arm, cell and repeat, by name."""
    requests = [request for turn in turns for request in turn["requests"]]
    seconds = sum(turn["seconds"] for turn in turns)
    tpots = [(last - first) / (n - 1) for _, n, first, last, _ in requests if n > 1]
    return {
        TOKENS_PER_S.name: sum(map(_tokens, turns)) / seconds,
        REQUESTS_PER_S.name: len(requests) / seconds,
        LATENCY_P50.name: _percentile([last for *_, last, _ in requests], 50),
        TTFT_P50.name: _percentile([first for _, _, first, _, _ in requests], 50),
        TPOT_P50.name: _percentile(tpots, 50),
        TPOT_P99.name: _percentile(tpots, 99),
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
