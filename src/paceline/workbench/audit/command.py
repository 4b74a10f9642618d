"""The command `paceline audit`: parse the options, audit, show and write.

What audits is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.option_types import (
    JSON_FILE,
    SEED,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.printable import printable, printable_lines
from paceline.foundation.command_line.server_options import (
    MODEL,
    api_key_option,
    choose_other_key,
    read_address,
)

if TYPE_CHECKING:
    from paceline.workbench.audit.auditing import Audit, AuditConfig

NOT_MADE = 4
"""Exit code of an audit that could not be made; 1 is the verdict `lossy`."""


class AuditNotMade(click.ClickException):
    """There is no verdict, or its report could not be written. The message says why."""

    exit_code = NOT_MADE


_EXAMPLES = """\b
Examples:
  paceline audit http://127.0.0.1:8000
      Is the server lossless? The answer takes up to five minutes
  paceline audit http://127.0.0.1:8000 --max-seconds 60 --json audit.json
  paceline audit http://10.0.0.5:8000 --reference http://10.0.0.6:8000
      Compare with a server of the same model without speculation
  paceline audit http://127.0.0.1:8000 --smallest-bias 0.1 --max-seconds 1800
      Exclude a smaller bias
"""


@click.command(
    name="audit",
    help=(
        "Find out whether the OpenAI-compatible server at URL is lossless: whether speculative "
        "decoding leaves its answers as the model alone would give them.\n\n"
        "Exit codes: 0 lossless, 1 lossy, 2 wrong usage, 3 undecided, 4 the audit could not be "
        "made, or has a defect. Works with any server that shows log-probabilities; Ctrl-C leaves "
        "a report of what is known."
    ),
    epilog=_EXAMPLES,
)
@click.argument("url")
@click.option(
    "--reference",
    metavar="URL",
    help="A server of the same model without speculation, whose log-probabilities are expected.  "
    "[default: the server's own, from requests that draft nothing]",
)
@MODEL
@click.option(
    "--max-seconds",
    type=FiniteFloat(min=1, max=86_400),
    default=300.0,
    show_default=True,
    help="Time of the whole audit.",
)
@click.option(
    "--restart-seconds",
    type=FiniteFloat(min=0, max=3600),
    default=120.0,
    show_default=True,
    help="How long to wait for a server that a request ended, until it is back; not counted in "
    "--max-seconds.",
)
@click.option(
    "--smallest-bias",
    type=FiniteFloat(min=0.05, max=2),
    default=0.2,
    show_default=True,
    metavar="FRACTION",
    help="A lossless verdict excludes biases of this size in the odds of the likeliest token.",
)
@click.option(
    "--number-format",
    type=NamedChoice(["auto", "float32", "float16", "bfloat16"]),
    default="auto",
    show_default=True,
    help="Of the served weights: decides which greedy tokens are near-ties. auto derives it from "
    "how much two computations of the same log-probabilities differ.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1, max=256),
    default=16,
    show_default=True,
    help="Requests in flight, at most.",
)
@SEED
@api_key_option(
    "Sent to URL as bearer token; never written to a report. The reference gets it only if it has "
    "the same scheme, host and port."
)
@click.option(
    "--reference-api-key",
    help="Sent to the reference as bearer token; never written to a report.  "
    "[default: none at another address than URL's]",
)
@JSON_FILE
def audit(**options: Any) -> None:
    """Parse, audit, show and write; the exit code is the verdict."""
    refuse_unwritable_file("--json", options["json_file"])
    try:
        exit_code = _audit(**options)
    except click.ClickException:
        raise
    except KeyboardInterrupt:  # while the libraries are imported; click would exit with 1
        raise AuditNotMade("interrupted before the audit began") from None
    except Exception as error:  # Python's exit code 1 would be a verdict.
        raise AuditNotMade(describe_defect(error)) from error
    sys.exit(exit_code)


def _audit(
    url: str,
    reference: str | None,
    api_key: str | None,
    reference_api_key: str | None,
    json_file: str | None,
    model: str | None,
    concurrency: int,
    **settings: Any,
) -> int:
    from paceline.foundation.command_line.interruption import sigint_ignored
    from paceline.foundation.results.files import write_document
    from paceline.workbench.audit.auditing import AuditConfig
    from paceline.workbench.audit.output.document import render_document
    from paceline.workbench.audit.output.lines import render_lines
    from paceline.workbench.audit.values import AuditError
    from paceline.workbench.audit.verdict import EXIT_CODES

    addresses = [read_address("URL", url), read_address("--reference", reference)]
    other_key = choose_other_key(addresses[0], addresses[1], api_key, reference_api_key)
    config = AuditConfig(**settings)
    try:
        done = _carry_out(addresses, config, model, (api_key, other_key), concurrency)
        with sigint_ignored():
            document = render_document(done, _environment())
            for line in render_lines(document):
                click.echo(printable_lines(line))
            if json_file is not None:
                write_document(Path(json_file), document)
    except (AuditError, OSError) as error:
        raise AuditNotMade(str(error)) from error
    return EXIT_CODES[done.decision().verdict]


def describe_defect(error: Exception, what: str = "audit") -> str:
    """What to do about an exception that no code expects in `what`; its traceback is in a file."""
    import tempfile
    import traceback

    import paceline

    with tempfile.NamedTemporaryFile(
        "w", prefix=f"paceline-{what}-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(error, file=file)
    return (
        f"the {what} ended with an unexpected {type(error).__name__}: {error}. This is a defect of "
        f"paceline {paceline.__version__}, and says nothing about the server. Please report it to "
        f"the developers of Paceline with the command and the file {file.name}, which has the "
        "traceback"
    )


def _environment() -> dict[str, Any]:
    from dataclasses import asdict

    from paceline.foundation.results.environment import describe_environment

    return asdict(describe_environment(sys.argv))


def _carry_out(
    addresses: list[str | None],
    config: AuditConfig,
    model: str | None,
    api_keys: tuple[str | None, str | None],
    concurrency: int,
) -> Audit:
    """The audit, partial after Ctrl-C or SIGTERM; of `api_keys` the second is the reference's.

    Raises AuditError.
    """
    import asyncio

    import uvloop
    from rich.console import Console

    from paceline.foundation.command_line.interruption import cancelled_by_signals
    from paceline.workbench.audit.auditing import Audit
    from paceline.workbench.audit.live import connected

    console = Console(stderr=True)
    kept: list[Audit] = []

    def show(text: str) -> None:
        if console.is_terminal:
            console.print(printable(text), markup=False, highlight=False)

    async def run() -> None:
        url, reference = addresses
        assert url is not None
        async with connected(url, model, api_keys[0], concurrency) as server:
            if reference is None:
                kept.append(Audit(server, config, on_progress=show))
                await kept[0].run()
                return
            async with connected(reference, None, api_keys[1], concurrency) as other:
                kept.append(Audit(server, config, other, show))
                await kept[0].run()

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(cancelled_by_signals(run()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not kept:
            raise AuditNotMade("interrupted before the audit began") from None
        kept[0].is_interrupted = True
    return kept[0]
