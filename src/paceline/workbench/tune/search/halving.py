"""Successive halving, one server after another.

The next server is the one whose best cell could be worth most by everything measured so far. On it
settings with every value of the live knobs get one block each, in the most promising combinations.
Then the most promising half as many get one, and so on down to two, which repeat until one is
surely better or the server's part of the budget is spent. A round drops what cannot be the best any
more, and may take in a setting that the blocks since have made promising. The trials of a round
send the same requests, in random order.

If the best setting of a server has the highest estimate so far, it is a finalist. While its server
runs, qualifying blocks decide whether it meets the SLO; they enter no estimate. If it misses, the
next settings of the server follow, at most three in all. A finalist that qualifies gets held-out
blocks, which no decision depends on. Only cells that can still win are a reason to drop others:
finalists that qualify, and cells of the running server that do not surely miss the SLO. A server
that cannot hold a better cell than such a finalist is not started.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence

from paceline.workbench.tune.search.outcome import Outcome, ScoringBlocks, conclude, meets_slo
from paceline.workbench.tune.search.rounds import Round, RoundResult, Search, ServerFailure
from paceline.workbench.tune.search.trial_book import TrialBook
from paceline.workbench.tune.values import (
    Cell,
    LiveSetting,
    Measurement,
    Purpose,
    RestartConfig,
    SearchProblem,
    Trial,
)

_EARLY_SHARE = 2
"""Blocks that the next server may take, relative to the mean of those after it: the most promising
servers come first, later ones gain from what they have shown, and may end early."""
_EXPECTED_FINALISTS = 1
"""For which the budget of a server leaves blocks aside."""
_MAX_FINALISTS = 3
"""Of one server. Every further cell that is scored on the same qualifying prompts is another chance
to meet the SLO there by luck."""


class _Failed(Exception):
    """The server of a round failed."""


def search(problem: SearchProblem) -> Search:
    """Yield the rounds of the search and return its outcome.

    The rounds depend on the problem and on the results that were sent, and on nothing else: sent
    the same results, the generator yields the same rounds. `problem.settings` must not be empty.
    """
    return (yield from _Search(problem).run())


class _Search:
    def __init__(self, problem: SearchProblem) -> None:
        self._problem = problem
        self._book = TrialBook(problem)
        self._random = random.Random(problem.seed)
        self._left = list(problem.settings)
        self._failures: dict[RestartConfig, str] = {}
        self._scoring: dict[Cell, ScoringBlocks] = {}
        self._num_starts = 0

    def run(self) -> Generator[Round, RoundResult, Outcome]:
        while (why_ended := self._why_ended()) is None:
            restart = max(self._left, key=self._book.upper)
            budget = self._session_budget()
            self._left.remove(restart)
            self._num_starts += 1
            try:
                yield from self._halve(restart, budget)
                yield from self._score(restart)
            except _Failed as failure:
                self._failures[restart] = str(failure)
        return conclude(
            self._problem,
            self._book,
            self._scoring,
            self._failures,
            num_starts=self._num_starts,
            why_ended=why_ended,
        )

    def _why_ended(self) -> str | None:
        """Why no further server is started; None to start one."""
        if not self._left:
            return "every server was started"
        if self._num_starts >= self._problem.max_starts:
            return f"{self._num_starts} servers were started, as many as allowed"
        if self._session_budget() < 2:
            return f"{self._book.num_blocks} blocks were measured, as many as allowed"
        best = max(map(self._book.mean, self._passing()), default=-math.inf)
        if all(self._book.upper(restart) < best for restart in self._left):
            return "none of the other configurations could be better, by what was measured"
        return None

    def _session_budget(self) -> int:
        """Search blocks of the next server: its share of those that are left."""
        num_sessions = min(self._problem.max_starts - self._num_starts, len(self._left))
        aside = self._blocks_of_finalist() * min(_EXPECTED_FINALISTS, num_sessions)
        left = self._problem.max_blocks - self._book.num_blocks - aside
        return left * _EARLY_SHARE // (num_sessions - 1 + _EARLY_SHARE)

    def _halve(self, restart: RestartConfig, budget: int) -> Generator[Round, RoundResult, None]:
        size = max(2, budget // 2)
        settings = self._book.first_settings(restart, min(size, budget))
        while settings:
            yield from self._measure(restart, settings, Purpose.SEARCH, f"{len(settings)} settings")
            budget -= len(settings)
            size = max(2, size // 2)
            settings = self._book.contenders(restart, min(size, budget), self._passing())
            if len(settings) == 1 and len(self._book.measured(Cell(restart, settings[0]))) > 1:
                return

    def _score(self, restart: RestartConfig) -> Generator[Round, RoundResult, None]:
        """Score the best cell of the server if it is the best so far.

        If it does not qualify, the next cells of the server follow while they are better than
        every finalist that meets it. Cells that surely miss it are passed over.
        """
        mine = [
            cell
            for cell in self._book.measured_cells()
            if cell.restart == restart and not self._book.surely_misses(cell)
        ]
        mine.sort(key=self._book.mean, reverse=True)
        best = max(map(self._book.mean, self._passing()), default=-math.inf)
        for cell in mine[:_MAX_FINALISTS]:
            if self._book.mean(cell) < best:
                return
            if self._problem.max_blocks - self._book.num_blocks < self._blocks_of_finalist():
                return
            qualifying = yield from self._repeat(
                cell, Purpose.QUALIFYING, self._problem.num_qualifying
            )
            self._scoring[cell] = ScoringBlocks(qualifying)
            if meets_slo(self._problem, qualifying):
                held_out = yield from self._repeat(
                    cell, Purpose.HELD_OUT, self._problem.num_held_out
                )
                self._scoring[cell] = ScoringBlocks(qualifying, held_out)
                return

    def _blocks_of_finalist(self) -> int:
        return self._problem.num_qualifying + self._problem.num_held_out

    def _passing(self) -> list[Cell]:
        """The finalists that qualified."""
        return [cell for cell, blocks in self._scoring.items() if blocks.held_out]

    def _repeat(
        self, cell: Cell, purpose: Purpose, count: int
    ) -> Generator[Round, RoundResult, tuple[Measurement, ...]]:
        """Blocks of one cell, which send one sequence after another."""
        blocks: list[Measurement] = []
        for sequence in range(count):
            blocks += yield from self._measure(
                cell.restart, [cell.live], purpose, f"{purpose.label} requests", sequence
            )
        return tuple(blocks)

    def _measure(
        self,
        restart: RestartConfig,
        settings: Sequence[LiveSetting],
        purpose: Purpose,
        why: str,
        sequence: int | None = None,
    ) -> Generator[Round, RoundResult, Sequence[Measurement]]:
        cells = [Cell(restart, live) for live in settings]
        self._random.shuffle(cells)
        trials = tuple(
            Trial(cell, purpose, len(self._book.measured(cell)) if sequence is None else sequence)
            for cell in cells
        )
        result = yield Round(restart, trials, why)
        if isinstance(result, ServerFailure):
            raise _Failed(result.reason)
        for trial, measurement in zip(trials, result, strict=True):
            self._book.add(trial, measurement)
        return result
