"""Keep the blocks of a search, and value the cells by them.

The value of a block is its good requests per second per dollar. A cell that surely meets the SLO
for too few requests (95 % Wilson interval below the least share) is worth less by the share that it
attains, so it loses against a similar cell that meets the SLO.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from paceline.foundation.results.slo import wilson_interval
from paceline.workbench.tune.search.surface import Block, Fit, Surface, promising
from paceline.workbench.tune.values import (
    Cell,
    LiveSetting,
    Measurement,
    Purpose,
    RestartConfig,
    SearchProblem,
    Trial,
)

_LOWEST_SHARE = 0.05
"""Of the highest value; lower ones count as this, because the log of 0 is no number."""
_DOUBT = 2.0
"""Standard deviations within which a cell could still be the best."""
_CURIOSITY = 1.5
"""Standard deviations that count in favour of a cell when the next ones are chosen."""


class TrialBook:
    """The measurements so far. Only search blocks teach something."""

    def __init__(self, problem: SearchProblem) -> None:
        self._problem = problem
        self.cells = problem.cells
        self._index = {cell: index for index, cell in enumerate(self.cells)}
        self._measured: dict[Cell, list[Measurement]] = {}
        self.num_blocks = 0
        """Of all purposes."""
        predictions = [problem.predicted.get(cell) for cell in self.cells]
        known = [value for value in predictions if value is not None]
        # A cell without a prediction is expected to be like the average of the others.
        unknown = math.exp(sum(map(math.log, known)) / len(known)) if known else 1.0
        self._surface = Surface(
            [_knobs(cell) for cell in self.cells],
            [
                math.log((unknown if value is None else value) / problem.price(cell.restart))
                for cell, value in zip(self.cells, predictions, strict=True)
            ],
        )
        self._fit: Fit | None = None

    def add(self, trial: Trial, measurement: Measurement) -> None:
        """Note one block."""
        self.num_blocks += 1
        if trial.purpose is Purpose.SEARCH:
            self._measured.setdefault(trial.cell, []).append(measurement)
            self._fit = None

    def fit(self) -> Fit:
        """What the blocks say about the cells, in the order of `cells`."""
        if self._fit is None:
            self._fit = self._surface.fit(self._blocks())
        return self._fit

    def index(self, cell: Cell) -> int:
        """Of the cell in `cells`."""
        return self._index[cell]

    def measured(self, cell: Cell) -> Sequence[Measurement]:
        """The search blocks of a cell, in order of their sequences."""
        return self._measured.get(cell, ())

    def measured_cells(self) -> Iterable[Cell]:
        """In the order of their first block."""
        return self._measured.keys()

    def surely_misses(self, cell: Cell) -> bool:
        """Whether the cell's requests meet the SLO too rarely, beyond doubt."""
        return surely_misses(self.measured(cell), self._problem.min_attained_fraction)

    def mean(self, cell: Cell) -> float:
        """The estimate of a cell's log value."""
        return float(self.fit().mean[self._index[cell]])

    def best_of(self, restart: RestartConfig) -> Cell | None:
        """The measured cell of this configuration with the highest estimate."""
        mine = [cell for cell in self._measured if cell.restart == restart]
        return max(mine, key=self.mean, default=None)

    def upper(self, restart: RestartConfig) -> float:
        """Log value that the best cell of this configuration could have."""
        fit = self.fit()
        return max(
            float(fit.mean[index] + _DOUBT * fit.sd[index]) for index in self._indices(restart)
        )

    def untried_contenders(self, best: float, failed: Collection[RestartConfig]) -> list[Cell]:
        """Cells without a block whose log value could be above `best`; none of failed servers."""
        fit = self.fit()
        return [
            cell
            for index, cell in enumerate(self.cells)
            if cell not in self._measured
            and cell.restart not in failed
            and fit.mean[index] + _DOUBT * fit.sd[index] >= best
        ]

    def first_settings(self, restart: RestartConfig, count: int) -> list[LiveSetting]:
        """Up to `count` settings to measure first on a server.

        They have every draft length and every limit at least once, as far as `count` allows: the
        same value may be good on one server and bad on another.
        """
        mine = self._indices(restart)
        values = [
            frozenset({("length", cell.live.draft_length), ("limit", cell.live.max_in_flight)})
            for cell in (self.cells[index] for index in mine)
        ]
        chosen = promising(self.fit(), mine, count, _CURIOSITY, values)
        return [self.cells[index].live for index in chosen]

    def contenders(
        self, restart: RestartConfig, count: int, finalists: Sequence[Cell]
    ) -> list[LiveSetting]:
        """Up to `count` settings of this configuration that could win.

        They do not surely miss the SLO, and they could be better than every measured one of this
        configuration that does not, and than the `finalists`, which are those that meet the SLO.
        """
        fit = self.fit()
        mine = [i for i in self._indices(restart) if not self.surely_misses(self.cells[i])]
        rivals = [self.cells[index] for index in mine if self.measured(self.cells[index])]
        best = max(map(self.mean, [*rivals, *finalists]), default=-math.inf)
        alive = [index for index in mine if fit.mean[index] + _DOUBT * fit.sd[index] >= best]
        return [self.cells[index].live for index in promising(fit, alive, count, _CURIOSITY)]

    def _indices(self, restart: RestartConfig) -> list[int]:
        return [self._index[Cell(restart, live)] for live in self._problem.settings[restart]]

    def _blocks(self) -> list[Block]:
        values = {
            cell: [self._value(cell, one) for one in blocks]
            for cell, blocks in self._measured.items()
        }
        highest = max((value for row in values.values() for value in row), default=0.0)
        floor = max(highest * _LOWEST_SHARE, 1e-9)
        return [
            Block(self._index[cell], sequence, math.log(max(value, floor)))
            for cell, row in values.items()
            for sequence, value in enumerate(row)
        ]

    def _value(self, cell: Cell, block: Measurement) -> float:
        value = block.good_requests_per_s / self._problem.price(cell.restart)
        return value * attained_fraction(self.measured(cell)) if self.surely_misses(cell) else value


def attained_fraction(blocks: Sequence[Measurement]) -> float:
    """Share of the requests that meet the SLO; 0 without requests."""
    total = sum(block.num_requests for block in blocks)
    return sum(block.num_met for block in blocks) / total if total else 0.0


def surely_misses(blocks: Sequence[Measurement], least_fraction: float) -> bool:
    """Whether the 95 % Wilson interval of the attained share is below the least one.

    It is also true for blocks without requests.
    """
    interval = wilson_interval(
        sum(block.num_met for block in blocks), sum(block.num_requests for block in blocks)
    )
    return bool(blocks) and (interval is None or interval[1] < least_fraction)


def _knobs(cell: Cell) -> list[object]:
    values: list[object] = [value for _, value in cell.restart.settings]
    return [*values, cell.live.draft_length, cell.live.max_in_flight]
