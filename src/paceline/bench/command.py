"""The command group `paceline bench`, which mounts one command per package."""

from __future__ import annotations

import click

from paceline.bench.run.command import run_command


@click.group(help="Measure a served model: latency, throughput, acceptance.")
def bench() -> None:
    """The group that `paceline` mounts."""


bench.add_command(run_command)
