"""The result of a search: the winner, what it was chosen from, and why it wins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from paceline.foundation.results.slo import wilson_interval
from paceline.workbench.tune.search.trial_book import TrialBook, attained_fraction
from paceline.workbench.tune.values import Cell, Measurement, RestartConfig, SearchProblem

Interval = tuple[float, float]

_T_975 = {
    1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
    12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00,
}  # fmt: skip
"""97.5 % quantile of Student's t by degrees of freedom."""
_Z_95 = 1.96
_MAX_OPEN_FRACTION = 0.2
"""Of the settings: those that were not tried and could be better than the best one. On simulated
servers a search of 96 settings leaves 0 or 1, up to 13 if a server fails, and 36 with a third of
the budget."""


@dataclass(frozen=True, slots=True)
class TriedCell:
    """A cell with search blocks."""

    cell: Cell
    num_blocks: int
    good_requests_per_s: float
    """Mean of the blocks."""
    attained_fraction: float
    estimate: float
    """Good requests per second by all blocks of the search, those of similar cells included."""
    surely_misses_slo: bool


@dataclass(frozen=True, slots=True)
class ScoringBlocks:
    """The blocks of a finalist that are not search blocks."""

    qualifying: tuple[Measurement, ...]
    held_out: tuple[Measurement, ...] = ()
    """Empty if it did not qualify."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """The score of a cell on qualifying or on held-out requests."""

    cell: Cell
    blocks: tuple[Measurement, ...]
    good_requests_per_s: float
    """Mean of the blocks."""
    good_requests_per_s_ci95: Interval | None
    """From the spread of all repeated blocks; None while nothing was repeated."""
    good_requests_per_usd: float | None
    """None without a price."""
    attained_fraction: float
    attained_fraction_ci95: Interval | None
    """None without requests."""
    meets_slo: bool
    """On these requests."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """The winner's value over that of another cell, minus 1, by the blocks of the search."""

    over: Cell
    relative: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a search."""

    winner: Finalist | None
    """On held-out requests, by which nothing was chosen. None if no finalist qualifies, or if too
    many settings were not tried and could be better."""
    best_tried: Finalist | None
    """The winner, or what would be it if the rest had been tried."""
    num_open: int
    """Settings that were not tried and could be better than `best_tried`."""
    finalists: tuple[Finalist, ...]
    """On qualifying requests, by the estimate of the search, the best first. At most a few of a
    server. The intervals of their attained fractions hold all at once (Bonferroni), because the
    winner is chosen by these requests too."""
    tried: tuple[TriedCell, ...]
    """By the estimate of the search, the best first."""
    advantages: tuple[Advantage, ...]
    """Over the runner-up on the winner's own server, and over the best of other servers."""
    failures: Mapping[RestartConfig, str]
    """Configurations that did not start or failed, with the reason."""
    num_starts: int
    """Servers that an uninterrupted search starts."""
    num_search_blocks: int
    num_qualifying_blocks: int
    num_held_out_blocks: int
    why_ended: str


def conclude(
    problem: SearchProblem,
    book: TrialBook,
    scoring: Mapping[Cell, ScoringBlocks],
    failures: Mapping[RestartConfig, str],
    *,
    num_starts: int,
    why_ended: str,
) -> Outcome:
    """Choose the winner: the finalist with the highest estimate that qualifies."""
    fit = book.fit()

    def log_value(cell: Cell) -> float:
        return float(fit.mean[book.index(cell)])

    qualifying = {cell: blocks.qualifying for cell, blocks in scoring.items()}
    held_out = {cell: blocks.held_out for cell, blocks in scoring.items() if blocks.held_out}
    searched = map(book.measured, book.measured_cells())
    spread = _spread([*searched, *qualifying.values(), *held_out.values()])
    z = _simultaneous_z_95(len(scoring))
    best_first = sorted(scoring, key=log_value, reverse=True)
    chosen = next((cell for cell in best_first if cell in held_out), None)
    best = None
    num_open = 0
    if chosen is not None:
        best = _finalist(problem, chosen, held_out[chosen], spread, _Z_95)
        num_open = len(book.untried_contenders(log_value(chosen), failures.keys()))
    winner = best if num_open <= _MAX_OPEN_FRACTION * len(problem.cells) else None
    tried = sorted(book.measured_cells(), key=log_value, reverse=True)
    num_qualifying = sum(map(len, qualifying.values()))
    num_held_out = sum(map(len, held_out.values()))
    return Outcome(
        winner=winner,
        best_tried=best,
        num_open=num_open,
        finalists=tuple(
            _finalist(problem, cell, qualifying[cell], spread, z) for cell in best_first
        ),
        tried=tuple(
            TriedCell(
                cell=cell,
                num_blocks=len(book.measured(cell)),
                good_requests_per_s=_mean(book.measured(cell)),
                attained_fraction=attained_fraction(book.measured(cell)),
                estimate=math.exp(log_value(cell)) * problem.price(cell.restart),
                surely_misses_slo=book.surely_misses(cell),
            )
            for cell in tried
        ),
        advantages=() if best is None else _advantages(book, best.cell, tried),
        failures=failures,
        num_starts=num_starts,
        num_search_blocks=book.num_blocks - num_qualifying - num_held_out,
        num_qualifying_blocks=num_qualifying,
        num_held_out_blocks=num_held_out,
        why_ended=why_ended,
    )


def meets_slo(problem: SearchProblem, blocks: Sequence[Measurement]) -> bool:
    """Whether enough of the requests meet the SLO."""
    return attained_fraction(blocks) >= problem.min_attained_fraction


def _finalist(
    problem: SearchProblem,
    cell: Cell,
    blocks: tuple[Measurement, ...],
    spread: tuple[float, int] | None,
    z: float,
) -> Finalist:
    rate = _mean(blocks)
    interval = None
    if spread is not None and rate > 0:
        half = _t_975(spread[1]) * spread[0] / math.sqrt(len(blocks))
        interval = (rate * math.exp(-half), rate * math.exp(half))
    usd_per_hour = problem.usd_per_hour.get(cell.restart)
    return Finalist(
        cell=cell,
        blocks=blocks,
        good_requests_per_s=rate,
        good_requests_per_s_ci95=interval,
        good_requests_per_usd=None if usd_per_hour is None else rate * 3600 / usd_per_hour,
        attained_fraction=attained_fraction(blocks),
        attained_fraction_ci95=wilson_interval(
            sum(block.num_met for block in blocks), sum(block.num_requests for block in blocks), z
        ),
        meets_slo=meets_slo(problem, blocks),
    )


def _advantages(book: TrialBook, winner: Cell, tried: Sequence[Cell]) -> tuple[Advantage, ...]:
    """Over the best of the same server, then over the best of the others."""
    others = [cell for cell in tried if cell != winner]
    same = [cell for cell in others if cell.restart == winner.restart]
    elsewhere = [cell for cell in others if cell.restart != winner.restart]
    return tuple(_advantage(book, winner, group[0]) for group in (same, elsewhere) if group)


def _advantage(book: TrialBook, winner: Cell, other: Cell) -> Advantage:
    fit, i, j = book.fit(), book.index(winner), book.index(other)
    log_ratio = float(fit.mean[i] - fit.mean[j])
    variance = fit.covariance[i, i] + fit.covariance[j, j] - 2 * fit.covariance[i, j]
    half = _Z_95 * math.sqrt(max(0.0, float(variance)))
    return Advantage(
        over=other,
        relative=math.expm1(log_ratio),
        low=math.expm1(log_ratio - half),
        high=math.expm1(log_ratio + half),
    )


def _mean(blocks: Sequence[Measurement]) -> float:
    return sum(block.good_requests_per_s for block in blocks) / len(blocks)


def _spread(cells: Sequence[Sequence[Measurement]]) -> tuple[float, int] | None:
    """Standard deviation of the log of a block's goodput, pooled over cells, and its freedom."""
    squares, freedom = 0.0, 0
    for blocks in cells:
        logs = [math.log(b.good_requests_per_s) for b in blocks if b.good_requests_per_s > 0]
        if len(logs) >= 2:
            mean = sum(logs) / len(logs)
            squares += sum((value - mean) ** 2 for value in logs)
            freedom += len(logs) - 1
    return (math.sqrt(squares / freedom), freedom) if freedom else None


def _simultaneous_z_95(num_intervals: int) -> float:
    """Normal quantile for intervals that all hold at once with 95 %, by Bonferroni."""
    return NormalDist().inv_cdf(1 - 0.05 / (2 * max(1, num_intervals)))


def _t_975(freedom: int) -> float:
    """The quantile at the next lower freedom of the table, which is not too small."""
    return _T_975[max(known for known in _T_975 if known <= freedom)]
