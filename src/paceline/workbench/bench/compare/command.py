"""The command `paceline bench compare`: parse the options, compare, show and write.

What measures is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    ABOVE_0,
    JSON_FILE,
    OUTPUT_FILE,
    SEED,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.printable import printable
from paceline.foundation.command_line.server_options import (
    MODEL,
    admin_key_option,
    api_key_option,
    read_address,
)
from paceline.foundation.files.strict_files import load_json
from paceline.foundation.load import options
from paceline.foundation.workloads import WorkloadError

if TYPE_CHECKING:
    from paceline.workbench.bench.compare.config import CompareConfig
    from paceline.workbench.bench.compare.measure import Comparison

_EXIT_UNDECIDED = 3
_EXIT_NOT_RESTORED = 4
_EXIT_INTERRUPTED = 130
_EXAMPLES = """\b
Examples:
  paceline bench compare http://127.0.0.1:8000 http://127.0.0.1:8100
      Which of two servers is faster, with one request in flight
  paceline bench compare today.yaml tomorrow.yaml --concurrency 8 --json compare.json
      Two configurations, which the comparison serves itself
  paceline bench compare http://127.0.0.1:8000 --settings off on
      What speculation gains on the Paceline that runs there
  paceline bench compare http://127.0.0.1:8000 --settings draft_length=2 draft_length=4
  paceline bench compare http://127.0.0.1:8000 --settings on ceiling=4 --concurrency 16
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
        "With --settings, find out whether one Paceline server, A, is faster with one setting of "
        "its governors than with another. They are switched before every block, on all replicas "
        "of the model and for all clients, and set back at the end, also after Ctrl-C.\n\n"
        "Both take turns every few seconds with the same requests. The comparison ends when the "
        "difference is clear or after --max-minutes. It also compares A with itself over the same "
        "time. Exit codes: 0 decided, 3 undecided, 1 failed, 2 wrong usage, 4 a governor could not "
        "be set back."
    ),
    epilog=_EXAMPLES,
)
@click.argument("a")
@click.argument("b", required=False)
@click.option(
    "--settings",
    nargs=2,
    metavar="SETTING_A SETTING_B",
    help="Compare two settings of the server A, a Paceline. Each is off, on (as the server is set "
    "now), or some of policy=NAME, draft_length=N and ceiling=N, joined by commas.",
)
@click.option(
    "--admin-url",
    help="Admin port of A, with --settings.  [default: port 8001 of the host of A]",
)
@admin_key_option("Key of the admin port, with the role operate or admin.")
@click.option(
    "--max-minutes",
    type=ABOVE_0,
    default=10.0,
    show_default=True,
    help="Bound on the measurement, warm-up included; starting configurations takes extra time.",
)
@click.option(
    "--figure",
    type=NamedChoice(["output_tokens_per_s", "ttft_ms", "tpot_ms"]),
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
    type=ABOVE_0,
    default=0.5,
    show_default=True,
    help="Aim for the time that a server is under load before the other takes its turn.",
)
@options.WORKLOAD
@options.PROMPTS
@options.TEMPERATURE
@click.option("--top-p", type=FiniteFloat(min=0, max=1, min_open=True))
@options.MAX_TOKENS
@click.option("--extra-body", metavar="JSON", help="Merged into every request body.")
@SEED
@options.CONCURRENCY
@options.RATE
@MODEL
@api_key_option("Sent to both as bearer token; never written to a report.")
@options.TIMEOUT
@click.option(
    "--start-timeout", "start_timeout_s", type=ABOVE_0,
    default=900.0, show_default=True, metavar="SECONDS", help="Per configuration.",
)  # fmt: skip
@click.option(
    "--max-dispatch-delay-ms", type=ABOVE_0, default=25.0, show_default=True,
    help="The comparison is not valid when requests are sent later than this.",
)  # fmt: skip
@JSON_FILE
@click.option("--html", "html_file", type=OUTPUT_FILE, help="Write a page for readers here.")
def compare_command(
    a: str,
    b: str | None,
    api_key: str | None,
    admin_key: str | None,
    json_file: str | None,
    html_file: str | None,
    **settings: Any,
) -> None:
    """Parse, compare, show and write; the exit code says whether it is decided."""
    for flag, file in (("--json", json_file), ("--html", html_file)):
        refuse_unwritable_file(flag, file)
    comparison = _carry_out(_parse_config(a, b, settings), api_key, admin_key)

    from paceline.foundation.results.files import write_document
    from paceline.workbench.bench.compare.report import render_document, render_lines, verdict_of
    from paceline.workbench.bench.compare.verdict import Verdict
    from paceline.workbench.bench.report.page import write_report

    for line in render_lines(comparison):
        click.echo(printable(line))
    document = render_document(comparison)
    if json_file is not None:
        write_document(Path(json_file), document)
    if html_file is not None:
        write_report(Path(html_file), document)
    if comparison.restore_failure is not None:
        sys.exit(_EXIT_NOT_RESTORED)
    if comparison.is_interrupted:
        sys.exit(_EXIT_INTERRUPTED)
    verdict, _ = verdict_of(comparison)
    sys.exit(_EXIT_UNDECIDED if verdict is Verdict.UNDECIDED else 0)


def _parse_config(a: str, b: str | None, settings: dict[str, Any]) -> CompareConfig:
    from paceline.foundation.load.config import BenchError
    from paceline.workbench.bench.compare.config import CompareConfig, check_subject
    from paceline.workbench.bench.compare.contrasts import Figure

    options.refuse_two_loads(settings["concurrency"], settings["rate_per_s"])
    if settings["concurrency"] is None and settings["rate_per_s"] is None:
        settings["concurrency"] = 1
    try:
        check_subject("A", a)
        if b is not None:
            check_subject("B", b)
    except BenchError as error:
        raise click.UsageError(str(error)) from error
    _check_settings(a, b, settings["settings"], settings["admin_url"])
    figure = settings.pop("figure")
    return CompareConfig(
        a=a,
        b=b,
        figure=None if figure is None else Figure(figure),
        margin=settings.pop("margin_percent") / 100,
        extra_body=_parse_extra_body(settings.pop("extra_body")),
        **settings,
    )


def _check_settings(
    a: str, b: str | None, settings: tuple[str, str] | None, admin_url: str | None
) -> None:
    """Raise `click.UsageError` unless there are two servers, or two settings of one."""
    from paceline.workbench.bench.compare.arm_settings import parse_setting
    from paceline.workbench.bench.compare.config import is_url

    if settings is None:
        if b is None:
            raise click.UsageError(
                "Only A is given: give a second server or paceline.yaml too, or two settings of "
                "A, such as --settings off on."
            )
        if admin_url is not None:
            raise click.UsageError("--admin-url is given without --settings, which it is for.")
        return
    if b is not None:
        raise click.UsageError(
            f"--settings compares two settings of one server, A; leave {b!r} or --settings out."
        )
    if admin_url is not None and not is_url(a):
        raise click.UsageError(
            f"--admin-url is given, but {a} is served with an admin port that the comparison "
            "chooses; leave it out."
        )
    read_address("--admin-url", admin_url)
    for name, text in zip("AB", settings, strict=True):
        try:
            parse_setting(text)
        except ValueError as error:
            raise click.UsageError(f"--settings: {name} is {error}.") from error


def _parse_extra_body(text: str | None) -> dict[str, Any]:
    try:
        extra_body = {} if text is None else load_json(text)
    except ValueError as error:
        raise click.UsageError(f"--extra-body is {text!r}, which is not JSON: {error}") from error
    if not isinstance(extra_body, dict):
        raise click.UsageError(f"--extra-body is {text!r}; it must be a JSON object.")
    return extra_body


def _carry_out(config: CompareConfig, api_key: str | None, admin_key: str | None) -> Comparison:
    """The comparison, partial after Ctrl-C or SIGTERM."""
    import asyncio

    from paceline.foundation.command_line.interruption import cancelled_by_signals
    from paceline.foundation.load.client_loop import client_loop
    from paceline.foundation.load.config import BenchError
    from paceline.workbench.bench.compare.measure import compare, finish, new_comparison
    from paceline.workbench.bench.compare.progress import round_progress

    comparison = new_comparison(config, sys.argv)
    is_interrupted = False
    try:
        with (
            round_progress() as on_round,
            client_loop() as runner,
        ):
            runner.run(cancelled_by_signals(compare(comparison, api_key, admin_key, on_round)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        is_interrupted = True
    except (BenchError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error
    finish(comparison, is_interrupted=is_interrupted)
    return comparison
