"""Show the progress of a run: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from paceline.foundation.load.records import RequestRecord


class BarProgress:
    """One progress bar per phase, with the number of failed requests."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._num_errors = 0

    def begin(self, phase: str, num_requests: int | None) -> None:
        """Start a new bar."""
        self._num_errors = 0
        self._task = self._bars.add_task(phase, total=num_requests, failures="")

    def advance(self, record: RequestRecord) -> None:
        """Count a request on the newest bar."""
        if not record.is_ok:
            self._num_errors += 1
        failures = f"{self._num_errors} failed" if self._num_errors else ""
        self._bars.update(self._task, advance=1, failures=failures)


@contextmanager
def terminal_progress() -> Iterator[BarProgress]:
    """A progress bar on stderr while the context lasts; silent unless stderr is a terminal."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[red]{task.fields[failures]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=4,
    )
    with bars:
        yield BarProgress(bars)
