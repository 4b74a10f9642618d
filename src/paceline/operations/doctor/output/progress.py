"""Show what the doctor does and for how long: on a terminal, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from paceline.operations.doctor.values import OnStage


@contextmanager
def terminal_stages(console: Console | None = None) -> Iterator[OnStage]:
    """What to call at each stage: its line on stderr has the seconds so far until the next one."""
    console = console or Console(stderr=True)
    lines = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=4,
    )

    def begin(stage: str) -> None:
        for task in lines.task_ids:
            lines.remove_task(task)
        lines.add_task(stage, total=None)

    with lines:
        yield begin
