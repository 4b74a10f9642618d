"""The command `paceline bench compare`: parse the options, compare, show and write.

What measures is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.finite_float import FiniteFloat
from paceline.workloads import WorkloadError, workload_names

if TYPE_CHECKING:
    from paceline.bench.compare.config import CompareConfig
    from paceline.bench.compare.measure import Comparison

_EXIT_UNDECIDED = 3
_EXIT_INTERRUPTED = 130
_EXAMPLES = """\b
Examples:
  paceline bench compare http://127.0.0.1:8000 http://127.0.0.1:8100
      Which of two servers is faster, with one request in flight
  paceline bench compare today.yaml tomorrow.yaml --concurrency 8 --json compare.json
      Two configurations, which the comparison serves itself
  paceline bench compare A_URL B_URL --rate 4 --figure ttft_ms --prompts mine.jsonl
      Time to first token under Poisson arrivals, with your own prompts
  paceline bench compare http://127.0.0.1:8000 http://127.0.0.1:8000
      A server against itself: how small a difference this machine can show
"""


@click.command(
    name="compare",
    help=(
        "Find out whether server B is faster than server A. A and B are URLs of OpenAI-compatible "
        "servers, or paceline.yaml files, which are served for the comparison.\n\n"
        "Both run at once and take turns every few seconds with the same requests. The comparison "
        "ends when the difference is clear or after --max-minutes. It also compares A with itself "
        "over the same time. Exit codes: 0 decided, 3 undecided, 1 failed, 2 wrong usage."
    ),
    epilog=_EXAMPLES,
)
@click.argument("a")
@click.argument("b")
@click.option(
    "--max-minutes",
    type=FiniteFloat(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Bound on the measurement, warm-up included; starting configurations takes extra time.",
)
@click.option(
    "--figure",
    type=click.Choice(["output_tokens_per_s", "ttft_ms", "tpot_ms"]),
    help="What decides.  [default: output_tokens_per_s, or tpot_ms with --rate]",
)
@click.option(
    "--margin",
    "margin_percent",
    type=FiniteFloat(min=0, max=100, min_open=True, max_open=True),
    default=3.0,
    show_default=True,
    metavar="PERCENT",
    help="A difference that is surely smaller is reported as no difference.",
)
@click.option(
    "--confidence",
    type=FiniteFloat(min=0.5, max=0.9999),
    default=0.99,
    show_default=True,
    help="Probability that no interval misses the true difference, over all looks together.",
)
@click.option(
    "--block-seconds",
    "block_s",
    type=FiniteFloat(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Aim for the time that a server is under load before the other takes its turn.",
)
@click.option(
    "--workload", type=click.Choice(workload_names()), default="mixed", show_default=True,
    help="Built-in prompts; paceline bench run --help lists them.",
)  # fmt: skip
@click.option(
    "--prompts",
    "prompts_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Your own prompts instead, as for paceline bench run.",
)
@click.option("--temperature", type=FiniteFloat(min=0), help="0 is greedy.")
@click.option("--top-p", type=FiniteFloat(min=0, max=1, min_open=True))
@click.option("--max-tokens", type=click.IntRange(min=1), help="Overrides the prompts' own limits.")
@click.option("--extra-body", metavar="JSON", help="Merged into every request body.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Closed loop: requests in flight.  [default: 1]",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=FiniteFloat(min=0, min_open=True),
    metavar="PER_SECOND",
    help="Open loop: Poisson arrivals at this mean rate.",
)
@click.option("--model", help="Model to request.  [default: the first that each server lists]")
@click.option(
    "--api-key",
    envvar="PACELINE_BENCH_API_KEY",
    show_envvar=True,
    help="Sent to both as bearer token; never written to a report.",
)
@click.option(
    "--timeout", "timeout_s", type=FiniteFloat(min=0, min_open=True), default=600.0,
    show_default=True, metavar="SECONDS", help="Per request.",
)  # fmt: skip
@click.option(
    "--start-timeout", "start_timeout_s", type=FiniteFloat(min=0, min_open=True),
    default=900.0, show_default=True, metavar="SECONDS", help="Per configuration.",
)  # fmt: skip
@click.option(
    "--max-dispatch-delay-ms", type=FiniteFloat(min=0, min_open=True), default=25.0,
    show_default=True, help="The comparison is not valid when requests are sent later than this.",
)  # fmt: skip
@click.option("--json", "json_file", type=click.Path(dir_okay=False), help="Write the report here.")
@click.option(
    "--html", "html_file", type=click.Path(dir_okay=False), help="Write a page for readers here."
)
def compare_command(
    a: str,
    b: str,
    api_key: str | None,
    json_file: str | None,
    html_file: str | None,
    **options: Any,
) -> None:
    """Parse, compare, show and write; the exit code says whether it is decided."""
    for flag, file in (("--json", json_file), ("--html", html_file)):
        if file is not None and not Path(file).absolute().parent.is_dir():
            raise click.UsageError(f"{flag} is {file}, in a folder that does not exist.")
    comparison = _carry_out(_parse_config(a, b, options), api_key)

    from paceline.bench.compare.report import render_document, render_lines, verdict_of
    from paceline.bench.compare.verdict import Verdict
    from paceline.bench.report.page import write_report
    from paceline.bench.results.files import write_document

    for line in render_lines(comparison):
        click.echo(line)
    document = render_document(comparison)
    if json_file is not None:
        write_document(Path(json_file), document)
    if html_file is not None:
        write_report(Path(html_file), document)
    if comparison.is_interrupted:
        sys.exit(_EXIT_INTERRUPTED)
    verdict, _ = verdict_of(comparison)
    sys.exit(_EXIT_UNDECIDED if verdict is Verdict.UNDECIDED else 0)


def _parse_config(a: str, b: str, options: dict[str, Any]) -> CompareConfig:
    from paceline.bench.compare.config import CompareConfig, check_subject
    from paceline.bench.compare.contrasts import Figure
    from paceline.bench.run.config import BenchError

    if options["concurrency"] is not None and options["rate_per_s"] is not None:
        raise click.UsageError(
            "--concurrency (closed loop) and --rate (open loop) exclude each other."
        )
    if options["concurrency"] is None and options["rate_per_s"] is None:
        options["concurrency"] = 1
    try:
        check_subject("A", a)
        check_subject("B", b)
    except BenchError as error:
        raise click.UsageError(str(error)) from error
    figure = options.pop("figure")
    return CompareConfig(
        a=a,
        b=b,
        figure=None if figure is None else Figure(figure),
        margin=options.pop("margin_percent") / 100,
        extra_body=_parse_extra_body(options.pop("extra_body")),
        **options,
    )


def _parse_extra_body(text: str | None) -> dict[str, Any]:
    try:
        extra_body = {} if text is None else json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--extra-body is {text!r}, which is not JSON: {error}") from error
    if not isinstance(extra_body, dict):
        raise click.UsageError(f"--extra-body is {text!r}; it must be a JSON object.")
    return extra_body


def _carry_out(config: CompareConfig, api_key: str | None) -> Comparison:
    """The comparison, partial after Ctrl-C or SIGTERM."""
    import asyncio

    import uvloop

    from paceline.bench.compare.measure import compare, finish, new_comparison
    from paceline.bench.compare.progress import round_progress
    from paceline.bench.interruption import cancelled_by_signals
    from paceline.bench.run.config import BenchError

    comparison = new_comparison(config, sys.argv)
    is_interrupted = False
    try:
        with (
            round_progress() as on_round,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(cancelled_by_signals(compare(comparison, api_key, on_round)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        is_interrupted = True
    except (BenchError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error
    finish(comparison, is_interrupted=is_interrupted)
    return comparison
