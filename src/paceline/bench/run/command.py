"""The command `paceline bench run`: parse the options, carry out one run, show and write it.

The run itself is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.workloads import WorkloadError, load_workloads, workload_names

if TYPE_CHECKING:
    from paceline.bench.run.config import RunConfig
    from paceline.bench.run.measure import RunResult

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_NUM_REQUESTS = 64
PIPE_COLUMNS = 120
"""Chosen empirically: the widest row of the report fits in one line."""

_RUN_EXAMPLES = """\b
Examples:
  paceline bench run
      64 requests of every task, one at a time, against http://127.0.0.1:8000
  paceline bench run --workload predictable --concurrency 8 --json predictable.json
  paceline bench run --workload hard --duration 60 --concurrency 8 --warmup 8
  paceline bench run http://10.0.0.5:8000 --rate 4 --num-requests 500 \\
      --admin-url http://10.0.0.5:8001
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
        f"errors.\n\n{_workload_list()}"
    ),
    epilog=_RUN_EXAMPLES,
)
@click.argument("url", default=DEFAULT_URL)
@click.option(
    "--workload",
    type=click.Choice(workload_names()),
    default="mixed",
    show_default=True,
    help="Built-in prompts, listed above.",
)
@click.option(
    "--prompts",
    "prompts_file",
    type=click.Path(exists=True, dir_okay=False),
    help='Your own prompts instead, one JSON object per line: {"messages": [...]} or '
    '{"prompt": "..."}, with optional "max_tokens" and "task".',
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    help="Sampling temperature; 0 is greedy.  [default: the workload's; 0 with --prompts]",
)
@click.option(
    "--top-p", type=click.FloatRange(min=0, max=1, min_open=True), help="Nucleus sampling."
)
@click.option("--max-tokens", type=click.IntRange(min=1), help="Overrides the prompts' own limits.")
@click.option(
    "--extra-body",
    metavar="JSON",
    help="""Merged into every request body, e.g. '{"top_k": 20, "ignore_eos": true}'.""",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seeds the order of the prompts, the arrivals and the sampling of each request.",
)
@click.option(
    "--num-requests",
    type=click.IntRange(min=1),
    help=f"Requests to measure.  [default: {DEFAULT_NUM_REQUESTS}, or no bound with --duration]",
)
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Start no request after this time; requests in flight are awaited and counted.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Closed loop: requests in flight at all times.  [default: 1]",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="PER_SECOND",
    help="Open loop: Poisson arrivals at this mean rate, whether or not earlier requests ended.",
)
@click.option(
    "--warmup",
    "num_warmup",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Requests sent before the measurement and not counted.",
)
@click.option("--model", help="Model to request.  [default: the first that the server lists]")
@click.option(
    "--api-key",
    envvar="PACELINE_BENCH_API_KEY",
    show_envvar=True,
    help="Sent as bearer token; never written to a report.",
)
@click.option(
    "--admin-url",
    help="Server to read the speculation counters from: Paceline's admin port.  [default: the "
    "server's own /metrics, else, on loopback, the port after URL's]",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Per request; a request that takes longer is an error.",
)
@click.option(
    "--max-dispatch-delay-ms",
    type=click.FloatRange(min=0, min_open=True),
    default=25.0,
    show_default=True,
    help="The run is not valid when the load generator sends later than this (p99).",
)
@click.option("--allow-errors", is_flag=True, help="Exit with 0 even if requests failed.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False), help="Write the report to this file."
)
@click.option(
    "--records",
    "records_file",
    type=click.Path(dir_okay=False),
    help="Write every request to this file, one JSON object per line.",
)
def run_command(
    url: str,
    api_key: str | None,
    allow_errors: bool,
    json_file: str | None,
    records_file: str | None,
    **options: Any,
) -> None:
    """Parse, run, show and write; the exit code says whether the run is valid."""
    for flag, file in (("--json", json_file), ("--records", records_file)):
        if file is not None and not Path(file).absolute().parent.is_dir():
            raise click.UsageError(f"{flag} is {file}, in a folder that does not exist.")
    config = _parse_config(url, options)
    result = _carry_out(config, api_key)

    from rich.console import Console

    from paceline.bench.results.files import write_document
    from paceline.bench.run import report

    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_COLUMNS)
    console.print(report.render_table(result))
    if json_file is not None:
        write_document(Path(json_file), report.render_document(result))
    if records_file is not None:
        report.write_records(Path(records_file), result.records)
    sys.exit(_exit_code(result, allow_errors))


def _parse_config(url: str, options: dict[str, Any]) -> RunConfig:
    from paceline.bench.run.config import BenchError, RunConfig, parse_server_url

    if options["concurrency"] is not None and options["rate_per_s"] is not None:
        raise click.UsageError(
            "--concurrency (closed loop) and --rate (open loop) exclude each other."
        )
    if options["concurrency"] is None and options["rate_per_s"] is None:
        options["concurrency"] = 1
    if options["num_requests"] is None and options["duration_s"] is None:
        options["num_requests"] = DEFAULT_NUM_REQUESTS
    try:
        for address in (url, options["admin_url"]):
            if address is not None:
                parse_server_url(address)
    except BenchError as error:
        raise click.UsageError(str(error)) from error
    extra_body = _parse_extra_body(options.pop("extra_body"))
    return RunConfig(url=url, extra_body=extra_body, **options)


def _parse_extra_body(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        extra_body = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--extra-body is {text!r}, which is not JSON: {error}") from error
    if not isinstance(extra_body, dict):
        raise click.UsageError(f"--extra-body is {text!r}; it must be a JSON object.")
    return extra_body


def _carry_out(config: RunConfig, api_key: str | None) -> RunResult:
    import asyncio

    import uvloop

    from paceline.bench.results.counters import CountersUnavailable
    from paceline.bench.run.config import BenchError
    from paceline.bench.run.measure import measure
    from paceline.bench.run.progress import terminal_progress

    try:
        with (
            terminal_progress() as progress,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            return runner.run(measure(config, api_key, sys.argv, progress))
    except CountersUnavailable as error:
        raise click.ClickException(f"--admin-url is {config.admin_url}: {error}") from error
    except (BenchError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error


def _exit_code(result: RunResult, allow_errors: bool) -> int:
    """0 for a valid run without errors; otherwise 1, with the reason on stderr."""
    summary = result.summary
    code = 0
    if not summary.is_valid:
        click.echo(f"Error: {summary.notes[0]}", err=True)
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
    return code
