"""The command `paceline doctor`: parse the options, observe, judge, show, write.

What observes is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    AT_LEAST_1,
    INPUT_FILE,
    OUTPUT_FILE,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.printable import printable
from paceline.foundation.command_line.server_options import admin_key_option, api_key_option
from paceline.foundation.load import options
from paceline.foundation.servers.default_addresses import DEFAULT_ADMIN_URL
from paceline.foundation.workloads import workload_names
from paceline.runtime.config.tree import DEFAULT_MAX_PAUSE_MS

if TYPE_CHECKING:
    from paceline.operations.doctor.diagnosing import DoctorConfig, Visit

_NOT_MADE = 4
_EXAMPLES = """\b
Examples:
  paceline doctor
      Diagnose the Paceline whose admin port is http://127.0.0.1:8001
  paceline doctor http://10.0.0.5:8000 --json diagnosis.json
      Diagnose a vLLM server, without Paceline
  paceline doctor http://10.0.0.5:8000 --probe --seconds 30
      Also send requests, up to 8 at a time
  paceline doctor --rules alerts.yaml --dashboard dashboard.json
      Also find alerts and panels whose metric no longer exists
  paceline doctor http://10.0.0.5:8000 --usd-per-hour 2.50
      Also state what the lost throughput costs
  paceline doctor --probe --data-url http://127.0.0.1:8000 --prompts mine.jsonl
      Also measure what drafts gain on your prompts, by switching drafts off and on
  paceline doctor --fix --data-url http://127.0.0.1:8000
      Also let the governor choose the draft length, if that gives more tokens/s
  paceline doctor http://10.0.0.5:8000 --log vllm.log
      Also look for known messages in the log; the server need not run
"""


class DiagnosisNotMade(click.ClickException):
    """There is no diagnosis. The message says why."""

    exit_code = _NOT_MADE


@click.command(
    name="doctor",
    help=(
        "Find out what is wrong with a running deployment, and what it costs. URL is Paceline's "
        f"admin port or a vLLM server; it defaults to {DEFAULT_ADMIN_URL}. Metrics are read over "
        "some seconds; nothing is sent or changed without --probe or --fix.\n\n"
        "Exit codes: 0 nothing worse than a remark, 1 a warning, 2 wrong usage, 3 something "
        "critical, or a governor that could not be restored, 4 no diagnosis could be made, 5 "
        "another program changed a governor while it was measured, 130 interrupted before the end."
    ),
    epilog=_EXAMPLES,
)
@click.argument("url", default=DEFAULT_ADMIN_URL)
@click.option(
    "--seconds",
    type=FiniteFloat(min=2, max=3600),
    default=15.0,
    show_default=True,
    help="How long to observe.",
)
@click.option(
    "--probe",
    "probes",
    is_flag=True,
    help="Send a bounded load while observing. Then, for as long again, compare drafting with not "
    "drafting: on Paceline by switching drafts off and on, and restoring the policy.",
)
@click.option(
    "--fix",
    "fixes",
    is_flag=True,
    help="On Paceline: --probe, then change the governors if that answers a finding. The change is "
    "measured against the present setting and stays only if it helps.",
)
@click.option(
    "--data-url",
    metavar="URL",
    help="With --probe on Paceline: the port that takes requests.  [default: URL, on vLLM]",
)
@click.option(
    "--model",
    help="With --probe: the model to ask; only its replicas are switched.  [default: the first]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1, max=64),
    default=8,
    show_default=True,
    help="With --probe: most requests in flight.",
)
@click.option(
    "--workload",
    type=NamedChoice(workload_names()),
    default="hard",
    show_default=True,
    help="With --probe: the prompts, sampled at the workload's temperature.",
)
@options.PROMPTS
@options.TEMPERATURE
@click.option(
    "--max-pause-ms",
    type=ABOVE_0,
    default=DEFAULT_MAX_PAUSE_MS,
    show_default=True,
    help="Pause within an answer that users accept, as the 99th percentile: what prompts cause "
    "within it is a remark.",
)
@click.option("--log", "log_file", type=INPUT_FILE, help="Log of the engine: its last 8 MiB.")
@click.option(
    "--rules",
    "rules",
    type=INPUT_FILE,
    multiple=True,
    help="Rule file of Prometheus: find alerts whose metric the server does not have; repeatable.",
)
@click.option(
    "--dashboard",
    "dashboards",
    type=INPUT_FILE,
    multiple=True,
    help="Dashboard of Grafana as JSON: the same for its panels; repeatable.",
)
@click.option(
    "--usd-per-hour",
    type=ABOVE_0,
    help="Price of one machine in US dollars per hour: findings that lose throughput or capacity "
    "then state what that costs.",
)
@click.option(
    "--machines",
    "num_machines",
    type=AT_LEAST_1,
    default=1,
    show_default=True,
    help="Machines that the engines of URL run on, at that price each.",
)
@admin_key_option("Sent to URL as bearer token; never written to a report.")
@api_key_option("The same for the requests of --probe.")
@click.option("--json", "json_file", type=OUTPUT_FILE, help="Write the diagnosis here.")
def doctor(json_file: str | None, **options: Any) -> None:
    """Diagnose; the exit code is the severity."""
    refuse_unwritable_file("--json", json_file)
    visit = _visit(_config(**options))

    import paceline
    from paceline.foundation.results.files import write_document
    from paceline.operations.doctor.diagnosing import diagnose, fix_server
    from paceline.operations.doctor.errors import DoctorError
    from paceline.operations.doctor.output.document import render_document, visit_exit_code
    from paceline.operations.doctor.output.lines import render_lines
    from paceline.operations.doctor.output.progress import terminal_stages

    try:
        diagnosis = diagnose(visit)
        if visit.config.fixes and not visit.is_interrupted:
            with terminal_stages() as on_stage:
                on_stage("measuring the change against the present setting")
                _carry_out(fix_server(visit, diagnosis), visit)
        _print(render_lines(visit, diagnosis))
        if json_file is not None:
            write_document(Path(json_file), render_document(visit, diagnosis, paceline.__version__))
    except (DoctorError, OSError) as error:
        raise DiagnosisNotMade(str(error)) from error
    sys.exit(visit_exit_code(visit, diagnosis))


def _print(lines: Iterable[str]) -> None:
    """As far as there is a reader: after `| head` has ended, the exit code is still right."""
    try:
        for line in lines:
            click.echo(printable(line))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end


def _config(
    url: str,
    seconds: float,
    probes: bool,
    fixes: bool,
    data_url: str | None,
    model: str | None,
    concurrency: int,
    workload: str,
    prompts_file: str | None,
    temperature: float | None,
    max_pause_ms: float,
    log_file: str | None,
    rules: tuple[str, ...],
    dashboards: tuple[str, ...],
    usd_per_hour: float | None,
    num_machines: int,
    admin_key: str | None,
    api_key: str | None,
) -> DoctorConfig:
    from paceline.operations.doctor.diagnosing import DoctorConfig
    from paceline.operations.doctor.estimates.money import MachinePrice
    from paceline.operations.doctor.probing.settings import ProbeSettings

    probes = probes or fixes
    for option, value in (
        ("--data-url", data_url), ("--prompts", prompts_file), ("--temperature", temperature)
    ):  # fmt: skip
        if value is not None and not probes:
            raise click.UsageError(f"{option} is for --probe and --fix.")
    if num_machines != 1 and usd_per_hour is None:
        raise click.UsageError("--machines needs --usd-per-hour.")
    address = _address("URL", url)
    probe = None
    if probes:
        target = address if data_url is None else _address("--data-url", data_url)
        probe = ProbeSettings(
            target,
            api_key,
            seconds,
            concurrency,
            model=model,
            workload=workload,
            prompts_file=None if prompts_file is None else Path(prompts_file),
            temperature=temperature,
        )
    return DoctorConfig(
        address,
        seconds,
        None if log_file is None else Path(log_file),
        admin_key,
        probe,
        fixes,
        None if usd_per_hour is None else MachinePrice(usd_per_hour, num_machines),
        tuple(map(Path, rules)),
        tuple(map(Path, dashboards)),
        max_pause_ms,
    )


def _address(option: str, url: str) -> Any:
    from paceline.foundation.load.config import BenchError, parse_server_url

    try:
        return parse_server_url(url)
    except BenchError as error:
        raise click.UsageError(f"{option}: {error}") from error


def _visit(config: DoctorConfig) -> Visit:
    """What was read, partial after Ctrl-C, SIGTERM or SIGHUP."""
    from paceline.foundation.workloads import WorkloadError
    from paceline.operations.doctor.diagnosing import Visit, visit_server
    from paceline.operations.doctor.errors import DoctorError
    from paceline.operations.doctor.output.progress import terminal_stages

    visit = Visit(config)
    try:
        with terminal_stages() as on_stage:
            _carry_out(visit_server(visit, on_stage), visit)
    except (DoctorError, WorkloadError) as error:
        raise DiagnosisNotMade(str(error)) from error
    return visit


def _carry_out(work: Coroutine[Any, Any, None], visit: Visit) -> None:
    """Run to the end, or until Ctrl-C, SIGTERM or SIGHUP, which the visit notes."""
    import asyncio

    from paceline.foundation.command_line.interruption import cancelled_by_signals

    try:
        asyncio.run(cancelled_by_signals(work))
    except (KeyboardInterrupt, asyncio.CancelledError):
        visit.is_interrupted = True
        visit.notes.append("interrupted before the end: judged from what was read until then")
