"""The command group `paceline bench`, which mounts one command per package."""

from __future__ import annotations

import click

from paceline.bench.compare.command import compare_command
from paceline.bench.export.command import export_command
from paceline.bench.quick.command import quick_command
from paceline.bench.report.command import report_command
from paceline.bench.run.command import run_command
from paceline.bench.sweep.command import sweep_command
from paceline.bench.trace.command import trace_command


@click.group(help="Measure a served model: latency, throughput, acceptance.")
def bench() -> None:
    """The group that `paceline` mounts."""


bench.add_command(compare_command)
bench.add_command(export_command)
bench.add_command(quick_command)
bench.add_command(report_command)
bench.add_command(run_command)
bench.add_command(sweep_command)
bench.add_command(trace_command)
