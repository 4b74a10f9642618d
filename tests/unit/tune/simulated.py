"""Servers with a known goodput for every cell, and noise: the truth that a search has to find.

96 cells: two drafters and no drafter with two batch sizes each, and 16 live settings. Goodput rises
with the requests in flight until the batch is full or the time per token reaches its objective, and
with the draft length up to a best one, which depends on the drafter and on the load.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from paceline.foundation.load.config import BenchError
from paceline.workbench.tune.search import Outcome, Round, ServerFailure, search
from paceline.workbench.tune.values import (
    Cell,
    LiveSetting,
    Measurement,
    RestartConfig,
    SearchProblem,
    Trial,
)

_BLOCK_S = 5.0
_TPOT_OBJECTIVE_MS = 40.0
DRAFTS = ("none", "ngram", "model")
MAX_SEQS = (16, 64)
DRAFT_LENGTHS = (1, 2, 4, 6)
IN_FLIGHT = (4, 8, 16, 32)


@dataclass(frozen=True)
class Truth:
    """The surface of one machine; `seed` draws its constants."""

    seed: int
    noise_sd: float = 0.04
    """Of the log of a block's goodput."""
    sequence_sd: float = 0.02
    broken: frozenset[RestartConfig] = field(default_factory=frozenset)

    def _constant(self, name: str, low: float, high: float) -> float:
        return random.Random(f"{self.seed} {name}").uniform(low, high)

    def tpot_ms(self, cell: Cell) -> float:
        """Time per output token, without noise."""
        batch = min(cell.live.max_in_flight, int(cell.restart.get("max_num_seqs") or 1))
        drafter = str(cell.restart.get("engine.draft"))
        length = 0 if drafter == "none" else cell.live.draft_length or 0
        acceptance = 0.0 if drafter == "none" else self._constant(drafter, 0.3, 0.85)
        tokens = (1 - acceptance ** (length + 1)) / (1 - acceptance)
        draft_ms = {"none": 0.0, "ngram": 0.05, "model": 1.0}[drafter] * length
        load_ms = self._constant("load", 0.2, 0.8) * batch * (1 + 0.25 * length)
        return (self._constant("base", 10, 20) + load_ms + draft_ms) / tokens

    def attained(self, cell: Cell) -> float:
        """Share of the requests within the objective."""
        waits = cell.live.max_in_flight > int(cell.restart.get("max_num_seqs") or 1)
        share = 1 / (1 + math.exp((self.tpot_ms(cell) - _TPOT_OBJECTIVE_MS) / 0.6))
        return 0.5 * share if waits else share

    def requests_per_s(self, cell: Cell) -> float:
        """All requests: 100 tokens each."""
        batch = min(cell.live.max_in_flight, int(cell.restart.get("max_num_seqs") or 1))
        return batch / (100 * self.tpot_ms(cell) / 1000)

    def goodput(self, cell: Cell) -> float:
        """Requests per second within the objective."""
        return self.requests_per_s(cell) * self.attained(cell)

    def measure(self, trial: Trial) -> Measurement:
        """A block; the same trial always gives the same figures."""
        draw = random.Random(f"{self.seed} {trial}")
        sequence = random.Random(f"{self.seed} {trial.purpose} {trial.sequence}")
        noise = draw.gauss(0, self.noise_sd) + sequence.gauss(0, self.sequence_sd)
        rate = self.requests_per_s(trial.cell) * math.exp(noise)
        total = max(1, round(rate * _BLOCK_S))
        share = self.attained(trial.cell)
        met = sum(draw.random() < share for _ in range(total))
        return Measurement(
            good_requests_per_s=rate * met / total,
            requests_per_s=rate,
            output_tokens_per_s=100 * rate,
            num_requests=total,
            num_met=met,
            num_errors=0,
            ttft_p95_ms=None,
            tpot_p95_ms=self.tpot_ms(trial.cell),
        )

    def best(self, problem: SearchProblem) -> float:
        """Goodput of the best cell that meets the objective often enough."""
        return max(
            self.goodput(cell)
            for cell in problem.cells
            if self.attained(cell) >= problem.min_attained_fraction
        )

    def loss(self, problem: SearchProblem, cell: Cell) -> float:
        """How far a cell is below the best one, as a fraction."""
        return 1 - self.goodput(cell) / self.best(problem)


def grid() -> dict[RestartConfig, tuple[LiveSetting, ...]]:
    """96 cells on 6 servers."""
    lives = tuple(LiveSetting(length, limit) for length in DRAFT_LENGTHS for limit in IN_FLIGHT)
    return {
        RestartConfig((("engine.draft", draft), ("max_num_seqs", seqs))): lives
        for draft in DRAFTS
        for seqs in MAX_SEQS
    }


def make_problem(seed: int = 0, **changes: object) -> SearchProblem:
    """A search with as many blocks as cells."""
    values: dict[str, object] = {
        "settings": grid(),
        "predicted": {},
        "usd_per_hour": {},
        "min_attained_fraction": 0.9,
        "max_starts": 6,
        "max_blocks": 96,
        "num_qualifying": 4,
        "num_held_out": 4,
        "seed": seed,
    }
    return SearchProblem(**{**values, **changes})  # type: ignore[arg-type]


def run_search(problem: SearchProblem, truth: Truth) -> tuple[Outcome, list[Round]]:
    """The outcome of a search on the truth, and its rounds."""
    running, rounds = search(problem), []
    one = next(running)
    while True:
        rounds.append(one)
        try:
            if one.restart in truth.broken:
                one = running.send(ServerFailure("out of memory"))
            else:
                one = running.send([truth.measure(trial) for trial in one.trials])
        except StopIteration as end:
            return end.value, rounds


def trials_of(rounds: Sequence[Round]) -> Iterator[Trial]:
    """All trials, in order."""
    for one in rounds:
        yield from one.trials


class Interrupted(Exception):
    """Stands for Ctrl-C at a trial."""


class SimulatedLauncher:
    """A `Launcher` of servers with the truth, which is interrupted after some trials."""

    def __init__(self, truth: Truth, max_trials: int | None = None) -> None:
        self._truth = truth
        self._num_left = max_trials
        self.started: list[RestartConfig] = []
        self.num_running = 0

    @contextlib.asynccontextmanager
    async def start(self, restart: RestartConfig) -> AsyncIterator[SimulatedLauncher]:
        self.started.append(restart)
        if restart in self._truth.broken:
            raise BenchError("out of memory")
        self.num_running += 1
        try:
            yield self
        finally:
            self.num_running -= 1

    async def run(self, trial: Trial) -> Measurement:
        if self._num_left is not None:
            if self._num_left == 0:
                raise Interrupted
            self._num_left -= 1
        return self._truth.measure(trial)
