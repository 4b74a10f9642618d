"""Progress of long work: bars on a terminal, one line per stage otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class DraftProgress:
    """The stages of a training or a measurement, one bar each."""

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._task = None if bars.disable else bars.add_task("starting", total=None, note="")

    def begin(self, stage: str, total: int | None, completed: int = 0) -> None:
        """Start a stage of `total` units; None if the number is not known yet."""
        if self._task is None:
            self._console.print(f"{stage} ...", markup=False, highlight=False)
            return
        self._bars.reset(self._task, total=total, completed=completed, description=stage, note="")

    def update(self, completed: int, *, total: int | None = None, note: str = "") -> None:
        """Show how far the stage is."""
        if self._task is not None:
            self._bars.update(self._task, completed=completed, total=total, note=note)


@contextmanager
def draft_progress() -> Iterator[DraftProgress]:
    """Progress on stderr while the context lasts."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=4,
    )
    with bars:
        yield DraftProgress(bars, console)
