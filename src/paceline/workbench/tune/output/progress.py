"""Show the trials of a tuning: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from paceline.workbench.tune.search import Round
from paceline.workbench.tune.state import TuneState
from paceline.workbench.tune.values import Measurement, Trial


class TuneProgress:
    """The bar, with the server under load and the best figure so far."""

    def __init__(self, bars: Progress, state: TuneState) -> None:
        self._bars = bars
        self._best: tuple[float, str] | None = None
        self._task = bars.add_task(
            "blocks",
            total=state.problem.max_blocks,
            completed=len(state.measurements),
            round="starting",
            best="",
        )

    def begin_round(self, one: Round, state: TuneState) -> None:
        """Show the server and the trials of a round."""
        text = f"{one.restart.label}: {one.why} ({state.num_starts} servers started)"
        self._bars.update(self._task, round=text, completed=len(state.measurements))

    def end_trial(self, trial: Trial, measurement: Measurement) -> None:
        """Count a trial."""
        good = measurement.good_requests_per_s
        if self._best is None or good > self._best[0]:
            self._best = good, trial.cell.label
            text = f"most in a block: {good:.2f} good requests/s, {trial.cell.label}"
            self._bars.update(self._task, best=text)
        self._bars.advance(self._task)


@contextmanager
def tune_progress(state: TuneState) -> Iterator[TuneProgress]:
    """Progress on stderr while the context lasts; silent unless stderr is a terminal."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("blocks"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[round]}\n{task.fields[best]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=4,
    )
    with bars:
        yield TuneProgress(bars, state)
