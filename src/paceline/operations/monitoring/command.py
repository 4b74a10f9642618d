"""The command `paceline render`: write alert rules and dashboards to a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import refuse_unwritable_folder
from paceline.foundation.command_line.output_files import write_files

RULES_FILE = "paceline.rules.yaml"
_OUTPUT = click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder to write to; it is created. Files of the same names are overwritten.",
)
_DURATION = re.compile(r"\d+(ms|s|m|h|d)")


def _check_duration(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not _DURATION.fullmatch(value):
        raise click.BadParameter(f"is {value}; it must be a number with ms, s, m, h or d: 30s")
    return value


def _check_job(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value or set(value) & {'"', "\\", "\n"}:
        raise click.BadParameter(f"is {value!r}; it must be a label value without quotes")
    return value


@click.group(
    epilog="docs/how-to/monitor.md says how to load the files.",
)
def render() -> None:
    """Write files for other programs: alert rules, dashboards.

    \b
    Examples:
      paceline render alerts --output monitoring/
          Alert rules for Prometheus
      paceline render dashboards --output monitoring/
          Dashboards for Grafana
    """


@render.command(name="alerts")
@_OUTPUT
@click.option(
    "--job",
    default="paceline",
    show_default=True,
    callback=_check_job,
    help="The job label that Prometheus gives the gateways.",
)
@click.option(
    "--availability",
    type=FiniteFloat(min=0, max=1, min_open=True, max_open=True),
    default=0.999,
    show_default=True,
    help="Fraction of requests that must not fail; the rest is the error budget.",
)
@click.option(
    "--for",
    "hold",
    metavar="DURATION",
    callback=_check_duration,
    help="Replace how long conditions must hold before an alert fires, to try the rules: 10s.",
)
def render_alerts(folder: Path, job: str, availability: float, hold: str | None) -> None:
    """Write the alert rules for Prometheus: paceline.rules.yaml.

    \b
    Examples:
      paceline render alerts --output monitoring/
      paceline render alerts --output monitoring/ --job llm-gateway --availability 0.995
      paceline render alerts --output /tmp/trial --for 10s
    """
    from paceline.operations.monitoring.alerts import AlertOptions, render_alert_rules

    try:
        options = AlertOptions(job=job, availability=availability, hold=hold)
    except ValueError as error:
        raise click.UsageError(f"--availability: {error}") from None
    _write(folder, {RULES_FILE: render_alert_rules(options)})


@render.command(name="dashboards")
@_OUTPUT
def render_dashboards(folder: Path) -> None:
    """Write the dashboards for Grafana as JSON.

    \b
    Examples:
      paceline render dashboards --output monitoring/
    """
    from paceline.operations.monitoring.dashboards import DASHBOARDS
    from paceline.operations.monitoring.dashboards.model import render_dashboard
    from paceline.operations.monitoring.queries import MetricQueries

    queries = MetricQueries()
    _write(folder, {name: render_dashboard(make(queries)) for name, make in DASHBOARDS.items()})


def _write(folder: Path, files: Mapping[str, str]) -> None:
    refuse_unwritable_folder("--output", folder)
    write_files(folder, files)
    for name in files:
        click.echo(f"written: {folder / name}")
