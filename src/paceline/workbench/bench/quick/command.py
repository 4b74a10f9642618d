"""The command `paceline bench quick`: parse the options, measure, answer.

What measures is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    AT_LEAST_1,
    JSON_FILE,
    SEED,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.printable import printable
from paceline.foundation.command_line.server_options import MODEL, api_key_option, read_address
from paceline.foundation.load import options
from paceline.foundation.servers.default_addresses import DEFAULT_URL
from paceline.foundation.workloads import WorkloadError

if TYPE_CHECKING:
    from paceline.workbench.bench.quick.config import QuickConfig
    from paceline.workbench.bench.quick.measure import QuickResult

_EXIT_NOT_RESTORED = 3
_EXIT_INTERRUPTED = 130
_EXAMPLES = """\b
Examples:
  paceline bench quick
      How many chats the server on http://127.0.0.1:8000 holds at once
  paceline bench quick http://10.0.0.5:8000 --ttft 0.5 --json quick.json
  paceline bench quick --admin-url http://127.0.0.1:8001
      Also what speculation gains; it is switched off and on for a quarter of a minute
"""


@click.command(
    name="quick",
    help=(
        "Find out in one minute how many chats the OpenAI-compatible server at URL holds at once "
        "before the time to first token passes a limit.\n\n"
        f"URL defaults to {DEFAULT_URL}. Works with plain vLLM and other servers, without "
        "configuration. The server gets as much load as it can take.\n\n"
        "Exit codes: 0 measured, 1 no figure, 2 wrong usage, 3 a governor could not be set back, "
        "130 interrupted."
    ),
    epilog=_EXAMPLES,
)
@click.argument("url", default=DEFAULT_URL)
@click.option(
    "--ttft",
    "ttft_limit_s",
    type=FiniteFloat(min=0, min_open=True, max=10),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit on the time to first token, for nine of ten requests.",
)
@click.option(
    "--admin-url",
    help="Paceline's admin port: speculation is switched off and on through it, and set back.",
)
@click.option(
    "--seconds",
    type=FiniteFloat(min=5, max=600),
    default=60.0,
    show_default=True,
    help="Time of the whole measurement.",
)
@click.option(
    "--max-concurrency",
    type=click.IntRange(min=1, max=4096),
    default=256,
    show_default=True,
    help="The most chats to try.",
)
@click.option(
    "--max-tokens",
    type=AT_LEAST_1,
    default=64,
    show_default=True,
    help="Tokens per answer.",
)
@options.WORKLOAD
@options.PROMPTS
@MODEL
@SEED
@api_key_option("Sent as bearer token; never written to a report.")
@click.option(
    "--admin-key",
    envvar="PACELINE_BENCH_ADMIN_KEY",
    show_envvar=True,
    help="The same for the admin port.",
)
@JSON_FILE
def quick_command(
    api_key: str | None, admin_key: str | None, json_file: str | None, **settings: Any
) -> None:
    """Parse, measure, answer and write."""
    from paceline.workbench.bench.quick.config import QuickConfig

    refuse_unwritable_file("--json", json_file)
    for option, address in (("URL", settings["url"]), ("--admin-url", settings["admin_url"])):
        read_address(option, address)
    result = _carry_out(QuickConfig(**settings), api_key, admin_key)

    from paceline.foundation.results.files import write_document
    from paceline.workbench.bench.quick.report import render_answer, render_document

    for line in (*render_answer(result), *(f"- {note}" for note in result.notes)):
        click.echo(printable(line))
    if json_file is not None:
        write_document(Path(json_file), render_document(result))
    if result.restore_failure is not None:
        sys.exit(_EXIT_NOT_RESTORED)
    if result.is_interrupted:
        sys.exit(_EXIT_INTERRUPTED)
    if result.held is None:
        raise click.ClickException(
            "the time was too short for a single window; give --seconds more"
        )


def _carry_out(config: QuickConfig, api_key: str | None, admin_key: str | None) -> QuickResult:
    """The result, partial after Ctrl-C or SIGTERM."""
    import asyncio

    from rich.console import Console

    from paceline.foundation.command_line.interruption import cancelled_by_signals
    from paceline.foundation.load.client_loop import client_loop
    from paceline.foundation.load.config import BenchError
    from paceline.foundation.results.environment import describe_environment
    from paceline.workbench.bench.quick.measure import QuickResult, measure_quickly

    result = QuickResult(config, describe_environment(sys.argv))
    console = Console(stderr=True)

    def show() -> None:
        if console.is_terminal:
            window = result.windows[-1]
            console.print(f"{window.level} at once: {len(window.ttfts_s)} requests")

    try:
        with client_loop() as runner:
            runner.run(cancelled_by_signals(measure_quickly(result, api_key, admin_key, show)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        result.is_interrupted = True
        result.notes.append("interrupted before the planned end; the figures are partial")
    except (BenchError, WorkloadError) as error:
        raise click.ClickException(str(error)) from error
    return result
