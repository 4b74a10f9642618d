"""The command `paceline bench trace`: parse the options, run the trace, compare, show and write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    JSON_FILE,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.printable import printable
from paceline.foundation.command_line.server_options import MODEL, api_key_option
from paceline.foundation.load.options import TIMEOUT
from paceline.foundation.servers.default_addresses import DEFAULT_URL
from paceline.foundation.workloads import WorkloadError
from paceline.workbench.bench.run.measuring_command import INTERRUPTED, report_console

if TYPE_CHECKING:
    from paceline.workbench.bench.trace.measure import TraceMeasurement

_EXAMPLES = """\b
Examples:
  paceline bench trace easy-hard-easy --label goodput --json goodput.json
      The server on http://127.0.0.1:8000, by text
  paceline bench trace easy-hard-easy --json k4.json --label K=4
  paceline bench trace easy-hard-easy --against k0.json --against k4.json
      Also the share of the oracle, the best of the given runs in each phase
  paceline bench trace my.yaml --url http://127.0.0.1:8100 --acceptance scripted
  paceline bench trace mixed-chat --acceptance synthetic --draft-length 4 \\
      --serve 'vllm serve TARGET --port {port} --speculative-config {speculative_config}' \\
      --speculative-config '{"method": "draft_model", "model": "DRAFT"}'
      vLLM accepts drafts at the scripted rates; it is started once for each
"""


def _published() -> str:
    from paceline.foundation.shifting_trace import find_trace, published_names

    traces = [find_trace(name) for name in published_names()]
    width = max(len(trace.name) for trace in traces)
    lines = (f"  {trace.name:{width}}  {trace.description}" for trace in traces)
    return "\n".join(["\b", "Published traces:", *lines])


@click.command(
    name="trace",
    help=(
        "Hold the OpenAI-compatible server at --url to a shifting-acceptance TRACE: the name of a "
        "published one, or a file (docs/reference/shifting-trace.md).\n\n"
        "Reports output tokens/s, acceptance and adaptation lag of each phase, and with --against "
        "the share of the oracle. The exit code is 0 only for a valid run.\n\n"
        f"{_published()}"
    ),
    epilog=_EXAMPLES,
)
@click.argument("trace")
@click.option("--url", help=f"The server.  [default: {DEFAULT_URL}]")
@click.option(
    "--acceptance",
    type=NamedChoice(["text", "scripted", "synthetic"]),
    default="text",
    show_default=True,
    help="text sends prompts of the built-in workloads. scripted sends random prompts, with the "
    "scripted acceptance rates in vllm_xargs of each request. synthetic starts vLLM with "
    "rejection_sample_method synthetic, by --serve.",
)
@click.option(
    "--serve",
    "serve_command",
    metavar="COMMAND",
    help="Starts the server for --acceptance synthetic, anew when the rates change. {port} and "
    "{speculative_config} in it are replaced.",
)
@click.option(
    "--draft-length",
    type=click.IntRange(min=0),
    default=0,
    help="Draft length of the servers that --serve starts; 0 is without speculation.",
)
@click.option(
    "--speculative-config",
    default="{}",
    metavar="JSON",
    help="What names the drafter, for {speculative_config} in --serve.",
)
@click.option(
    "--start-timeout",
    "start_timeout_s",
    type=ABOVE_0,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Until a server that --serve starts must be healthy.",
)
@click.option(
    "--against",
    "against_files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="REPORT",
    help="Report of another run of the trace, such as one fixed draft length. May be repeated.",
)
@click.option("--label", help="Name of this run in reports that compare.  [default: the file's]")
@click.option(
    "--load-scale",
    type=ABOVE_0,
    default=1.0,
    show_default=True,
    help="Factor on the concurrency or rate of every phase.",
)
@click.option(
    "--time-scale",
    type=ABOVE_0,
    default=1.0,
    show_default=True,
    help="Factor on the length of every phase.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seeds the categories, the order of the prompts, the arrivals and sampled requests.",
)
@MODEL
@api_key_option("Sent as bearer token; never written to a report.")
@click.option("--admin-url", help="Server to read the speculation counters from, as in bench run.")
@TIMEOUT
@click.option(
    "--max-dispatch-delay-ms",
    type=ABOVE_0,
    default=25.0,
    show_default=True,
    help="The run is not valid when the load generator sends later than this (p99).",
)
@JSON_FILE
def trace_command(
    trace: str,
    against_files: tuple[Path, ...],
    api_key: str | None,
    json_file: str | None,
    **options: Any,
) -> None:
    """Parse, run, compare, show and write."""
    from paceline.foundation.load.config import BenchError
    from paceline.foundation.results.environment import describe_environment
    from paceline.foundation.results.files import write_document
    from paceline.workbench.bench.trace.figures import compute_figures
    from paceline.workbench.bench.trace.measure import TraceMeasurement
    from paceline.workbench.bench.trace.oracle import compare, read_run
    from paceline.workbench.bench.trace.parsing import parse_config
    from paceline.workbench.bench.trace.report import identify, render_document
    from paceline.workbench.bench.trace.table import render_table

    refuse_unwritable_file("--json", json_file)
    try:
        config = parse_config(trace, options, DEFAULT_URL)
        names = [phase.name for phase in config.trace.phases]
        others = [read_run(path, identify(config), names) for path in against_files]
    except (BenchError, WorkloadError) as error:
        raise click.UsageError(str(error)) from error
    measurement = TraceMeasurement(config, describe_environment(sys.argv))
    _carry_out(measurement, api_key)
    figures = compute_figures(measurement)
    comparison = compare(figures, others)
    if json_file is not None:
        write_document(Path(json_file), render_document(measurement, figures, comparison))
    console = report_console()
    console.print(render_table(measurement.config, figures, comparison))
    for note in measurement.notes:
        console.print(printable(f"Note: {note}"), markup=False)
    if measurement.is_interrupted:
        sys.exit(INTERRUPTED)
    sys.exit(0 if figures.is_valid else 1)


def _carry_out(measurement: TraceMeasurement, api_key: str | None) -> None:
    """Run the trace; Ctrl-C and SIGTERM end it early."""
    import asyncio

    from rich.console import Console

    from paceline.foundation.command_line.interruption import cancelled_by_signals
    from paceline.foundation.load.client_loop import client_loop
    from paceline.foundation.load.config import BenchError
    from paceline.foundation.shifting_trace import TracePhase
    from paceline.workbench.bench.results.counters import CountersUnavailable
    from paceline.workbench.bench.trace.measure import measure_trace

    console = Console(stderr=True)

    def show(phase: TracePhase) -> None:
        if console.is_terminal:
            console.print(f"phase {phase.name}")

    try:
        with client_loop() as runner:
            runner.run(cancelled_by_signals(measure_trace(measurement, api_key, show)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        measurement.is_interrupted = True
    except CountersUnavailable as error:
        raise click.ClickException(f"--admin-url is {measurement.config.admin_url}: {error}") from (
            error
        )
    except (BenchError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error
