"""Show the rounds of a comparison: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from paceline.workbench.bench.compare.campaign import Campaign
from paceline.workbench.bench.compare.verdict import render_difference


@contextmanager
def round_progress() -> Iterator[Callable[[Campaign], None]]:
    """A function that shows a campaign's state on stderr; silent unless stderr is a terminal."""
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("rounds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last_look]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        refresh_per_second=4,
    )
    with bars:
        task = bars.add_task("rounds", total=None, last_look="")

        def show(campaign: Campaign) -> None:
            text = ""
            if campaign.judgements:
                judgement = campaign.judgements[-1]
                text = render_difference(judgement.difference[judgement.primary])
            bars.update(
                task,
                completed=len(campaign.rounds),
                total=campaign.num_planned_rounds,
                last_look=text,
            )

        yield show
