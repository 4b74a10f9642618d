"""What the commands that measure a server have in common: signals, errors, the console.

What measures is imported only when a command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from paceline.foundation.workloads import WorkloadError

if TYPE_CHECKING:
    import asyncio

    from rich.console import Console

    from paceline.workbench.bench.run.progress import BarProgress

Result = TypeVar("Result")

_PIPE_COLUMNS = 120
"""Chosen empirically: the widest row of a report fits in one line."""
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells use it."""


def carry_out(
    measure: Callable[[BarProgress, asyncio.Event], Awaitable[Result]], admin_url: str | None
) -> Result:
    """Measure with a progress bar; the first signal sets the event, so that the rest is reported.

    Raises `click.Abort` after a second one, and `click.ClickException` with what ended it.
    """
    import asyncio

    from paceline.foundation.command_line.interruption import stop_on_signals
    from paceline.foundation.load.client_loop import client_loop
    from paceline.foundation.load.config import BenchError
    from paceline.workbench.bench.results.counters import CountersUnavailable
    from paceline.workbench.bench.run.progress import terminal_progress

    async def run() -> Result:
        with stop_on_signals() as stop, terminal_progress() as progress:
            return await measure(progress, stop)

    try:
        with client_loop() as runner:
            return runner.run(run())
    except asyncio.CancelledError as error:
        raise click.Abort from error
    except CountersUnavailable as error:
        raise click.ClickException(f"--admin-url is {admin_url}: {error}") from error
    except WorkloadError as error:
        raise click.UsageError(str(error)) from error
    except BenchError as error:
        raise click.ClickException(str(error)) from error


def report_console() -> Console:
    """The console of a report: in a pipe as wide as its rows."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_COLUMNS)
