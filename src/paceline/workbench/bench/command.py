"""The command group `paceline bench`, which mounts one command per package."""

from __future__ import annotations

import click

from paceline.workbench.bench.compare.command import compare_command
from paceline.workbench.bench.export.command import export_command
from paceline.workbench.bench.quick.command import quick_command
from paceline.workbench.bench.report.command import report_command
from paceline.workbench.bench.run.command import run_command
from paceline.workbench.bench.sweep.command import sweep_command
from paceline.workbench.bench.trace.command import trace_command


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
