"""The command `paceline bench sweep`: parse the options, measure the rates, show and write them.

What measures is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import ABOVE_0, JSON_FILE, refuse_unwritable_file
from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.default_addresses import DEFAULT_URL
from paceline.foundation.workloads import WorkloadError
from paceline.workbench.bench.run.measuring_command import INTERRUPTED, carry_out, report_console
from paceline.workbench.bench.run.options import sweep_options

if TYPE_CHECKING:
    from paceline.workbench.bench.sweep.measure import SweepResult

_DEFAULT_DURATION_S = 30.0
_NOT_SWEPT = {
    "concurrency": None,
    "final_rate_per_s": None,
    "num_requests": None,
    "trace_file": None,
    "trace_speed": 1.0,
    "trace_unit": None,
    "trace_block_tokens": None,
    "phases_file": None,
    "repeats": 1,
    "adaptation_window_s": 5.0,
    "adaptation_tolerance": 0.1,
}
"""Options of `paceline bench run` that a sweep does not have, with their defaults."""
_EXAMPLES = """\b
Examples:
  paceline bench sweep --rates 1,2,4,8 --input-len 512 --output-len 128
  paceline bench sweep http://10.0.0.5:8000 --slo ttft=1s,tpot=50ms --json sweep.json
      Search for the highest rate that the server keeps
"""


class Rates(click.ParamType[tuple[float, ...]]):
    """Rates above 0, separated by commas."""

    name = "rates"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        one = FiniteFloat(min=0, min_open=True)
        return tuple(one.convert(part.strip(), param, ctx) for part in str(value).split(","))


@click.command(
    name="sweep",
    help=(
        "Measure the OpenAI-compatible server at URL at one rate of requests after another, in "
        "ascending order, and end at the first that it does not keep.\n\n"
        f"URL defaults to {DEFAULT_URL}. Without --rates the command searches for the highest rate "
        "that it keeps: from one request in flight on average, doubled until requests pile up, "
        "then within 25 %. Each rate is a run of paceline bench run; docs/bench.md defines every "
        "figure."
    ),
    epilog=_EXAMPLES,
)
@click.argument("url", default=DEFAULT_URL)
@click.option(
    "--rates",
    type=Rates(),
    metavar="R,R,...",
    help="Requests per second, separated by commas.  [default: search]",
)
@click.option(
    "--duration",
    "duration_s",
    type=ABOVE_0,
    default=_DEFAULT_DURATION_S,
    show_default=True,
    metavar="SECONDS",
    help="Time of the arrivals of each rate; requests in flight are awaited before the next.",
)
@sweep_options
@JSON_FILE
def sweep_command(
    url: str,
    rates: tuple[float, ...] | None,
    api_key: str | None,
    allow_errors: bool,
    json_file: str | None,
    **options: Any,
) -> None:
    """Parse, measure, show and write; the exit code says whether every run is valid."""
    refuse_unwritable_file("--json", json_file)

    from paceline.workbench.bench.run.parsing import parse_config
    from paceline.workbench.bench.sweep.measure import measure_sweep

    try:
        config = parse_config(url, {**_NOT_SWEPT, **options, "rate_per_s": 1.0})
    except WorkloadError as error:
        raise click.UsageError(str(error)) from error
    result = carry_out(
        lambda progress, stop: measure_sweep(
            config, rates or (), api_key, sys.argv, progress, stop
        ),
        config.admin_url,
    )

    from paceline.foundation.results.files import write_document
    from paceline.workbench.bench.sweep.report import render_sweep, render_sweep_table

    if not result.steps:
        raise click.Abort
    if json_file is not None:
        write_document(Path(json_file), render_sweep(result))
    report_console().print(render_sweep_table(result))
    sys.exit(_exit_code(result, allow_errors))


def _exit_code(result: SweepResult, allow_errors: bool) -> int:
    """0 if every run is valid and no request failed at a rate that was kept; stderr says why not.

    Requests that fail above the server's limit are what the sweep looks for.
    """
    code = 0
    for step in result.steps:
        run = step.result
        for warning in run.warnings:
            if warning.invalidates:
                text = f"Error: at {step.rate_per_s:.3g}/s: {warning.message}"
                click.echo(printable(text), err=True)
                code = 1
        if step.is_kept and run.summary.num_errors and not allow_errors:
            click.echo(
                f"Error: {run.summary.num_errors} of {run.summary.num_requests} requests failed at "
                f"{step.rate_per_s:.3g}/s (--allow-errors accepts that).",
                err=True,
            )
            code = 1
    if all(s.result.summary.num_errors == s.result.summary.num_requests for s in result.steps):
        click.echo("Error: no request succeeded.", err=True)
        code = 1
    return INTERRUPTED if result.interrupted else code
