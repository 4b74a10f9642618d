"""The command `paceline bench run`: parse the options, carry out one run, show and write it.

The run itself is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.option_types import refuse_unwritable_file
from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.default_addresses import DEFAULT_URL
from paceline.foundation.workloads import WorkloadError, load_workloads
from paceline.workbench.bench.run.measuring_command import INTERRUPTED, carry_out, report_console
from paceline.workbench.bench.run.options import DEFAULT_NUM_REQUESTS, run_options

if TYPE_CHECKING:
    from paceline.workbench.bench.run.outcome import RunResult

_RUN_EXAMPLES = f"""\b
Examples:
  paceline bench run
      {DEFAULT_NUM_REQUESTS} requests of every task, one at a time, against {DEFAULT_URL}
  paceline bench run --workload predictable --concurrency 8 --json predictable.json
  paceline bench run --workload hard --duration 60 --concurrency 8 --warmup 8
  paceline bench run http://10.0.0.5:8000 --rate 4 --num-requests 500 \\
      --admin-url http://10.0.0.5:8001 --slo ttft=1s,tpot=50ms
  paceline bench run --rate 2 --ramp-to 20 --burstiness 0.5 --duration 120
  paceline bench run --trace mooncake.jsonl --trace-speed 4 --max-in-flight 256
  paceline bench run --phases day.yaml --repeats 5 --json day.json
  paceline bench run --prompts my-prompts.jsonl --temperature 0.7 --top-p 0.9
"""


def _workload_list() -> str:
    """The built-in workloads, one per line."""
    workloads = load_workloads().values()
    width = max(len(workload.name) for workload in workloads)
    lines = (f"  {workload.name:{width}}  {workload.description}" for workload in workloads)
    return "\n".join(["\b", "Workloads:", *lines])


@click.command(
    name="run",
    help=(
        "Send requests to the OpenAI-compatible server at URL and report the latency and "
        "throughput that clients see.\n\n"
        f"URL defaults to {DEFAULT_URL}. Latencies count from the scheduled send time; "
        "docs/bench.md defines every figure. The exit code is 0 only for a valid run without "
        "errors. Ctrl-C ends the run and reports the requests that have ended.\n\n"
        f"{_workload_list()}"
    ),
    epilog=_RUN_EXAMPLES,
)
@click.argument("url", default=DEFAULT_URL)
@run_options
def run_command(
    url: str,
    api_key: str | None,
    allow_errors: bool,
    json_file: str | None,
    html_file: str | None,
    records_file: str | None,
    **options: Any,
) -> None:
    """Parse, run, show and write; the exit code says whether the run is valid."""
    files = (("--json", json_file), ("--html", html_file), ("--records", records_file))
    for flag, file in files:
        refuse_unwritable_file(flag, file)

    from paceline.workbench.bench.run.measure import measure
    from paceline.workbench.bench.run.parsing import parse_config

    try:
        config = parse_config(url, options)
    except WorkloadError as error:
        raise click.UsageError(str(error)) from error
    result = carry_out(
        lambda progress, stop: measure(config, api_key, sys.argv, progress, stop), config.admin_url
    )

    from paceline.foundation.results.files import write_document
    from paceline.workbench.bench.report.page import write_report
    from paceline.workbench.bench.run.document import render_document, write_records
    from paceline.workbench.bench.run.table import render_table

    document = render_document(result)
    if json_file is not None:
        write_document(Path(json_file), document)
    if html_file is not None:
        write_report(Path(html_file), document)
    if records_file is not None:
        write_records(Path(records_file), result.records)
    report_console().print(render_table(result))
    sys.exit(_exit_code(result, allow_errors))


def _exit_code(result: RunResult, allow_errors: bool) -> int:
    """0 for a valid run without errors, 130 for an interrupted one, else 1; stderr says why."""
    summary = result.summary
    code = 0
    for warning in result.warnings:
        if warning.invalidates:
            click.echo(printable(f"Error: {warning.message}"), err=True)
            code = 1
    if summary.num_errors == summary.num_requests:
        click.echo("Error: no request succeeded.", err=True)
        code = 1
    elif summary.num_errors and not allow_errors:
        click.echo(
            f"Error: {summary.num_errors} of {summary.num_requests} requests failed "
            "(--allow-errors accepts that).",
            err=True,
        )
        code = 1
    return INTERRUPTED if result.interrupted else code
