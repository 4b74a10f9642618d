"""The command `paceline validate`: parse the options, validate or verify, exit with the verdict.

What validates is imported only when the command is executed, so that `--help` stays fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.command_line.option_types import (
    INPUT_FILE,
    JSON_FILE,
    OUTPUT_FILE,
    NamedChoice,
    refuse_unwritable_file,
)
from paceline.foundation.command_line.printable import printable
from paceline.foundation.command_line.server_options import (
    MODEL,
    admin_key_option,
    api_key_option,
    choose_other_key,
    read_address,
)

_TIERS = ("local", "startup", "mid-market", "enterprise")
_NOT_MADE = 4
_INVALID = 1


class ValidationNotMade(click.ClickException):
    """There is no verdict. The message says why."""

    exit_code = _NOT_MADE


_EXAMPLES = """\b
Examples:
  paceline validate http://127.0.0.1:8000 --admin-url http://127.0.0.1:8001 --json report.json
  paceline validate http://10.0.0.5:8000 --tier startup --require lossless \\
      --sign ~/.ssh/id_ed25519 --json report.json --html report.html
  paceline validate http://10.0.0.5:8000 --prompts mine.jsonl --baseline http://10.0.0.6:8000 \\
      --require quality
      Also compare its answers with those of the unquantized model
  paceline validate http://10.0.0.5:8000 --previous report.json --json next.json
  paceline validate http://10.0.0.5:8000 --json report.json --resume
      Run the checks that an interruption left out
  paceline validate --verify report.json --public-key ~/.ssh/id_ed25519.pub
"""


@click.command(
    name="validate",
    help=(
        "Execute the pre-deployment checklist against the running server at URL: a Paceline "
        "gateway, a vLLM server, or another one of the OpenAI API. Each check is PASS, FAIL, or "
        "SKIP with what is missing.\n\n"
        "Exit codes: 0 passed, 1 failed, 2 wrong usage, 3 interrupted before a failure, or no "
        "check passed, 4 the validation could not be made. Ctrl-C leaves a complete report of the "
        "checks so far. The load is that of the tier: do not run it against a server in use "
        "without --shared."
    ),
    epilog=_EXAMPLES,
)
@click.argument("url", required=False)
@click.option("--admin-url", help="Of Paceline's admin port: metrics, draining.")
@MODEL
@click.option(
    "--tier",
    type=NamedChoice(_TIERS),
    default="local",
    show_default=True,
    help="The load, and the limits under it.",
)
@click.option(
    "--prompts",
    "prompts_file",
    type=INPUT_FILE,
    help="Your own prompts for the load, as for paceline bench run. Those with a reference answer "
    "are for the check quality, too.",
)
@click.option(
    "--baseline",
    metavar="URL",
    help="A server of the unquantized model, for the check quality: both answer the prompts that "
    "have a reference answer.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    help="Run only this check, and require it. Repeatable.",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="CHECK",
    help="A SKIP of this check fails the validation. Repeatable.",
)
@click.option("--shared", "is_shared", is_flag=True, help="Other clients use the deployment.")
@click.option(
    "--drain", "allows_drain", is_flag=True, help="Allow that a replica is drained for a moment."
)
@click.option(
    "--audit-seconds",
    type=FiniteFloat(min=1, max=600),
    default=120.0,
    show_default=True,
    help="Time of the check lossless.",
)
@api_key_option(
    "Sent to URL as bearer token; never written to a report. The baseline gets it only if it has "
    "the same scheme, host and port."
)
@click.option(
    "--baseline-api-key",
    help="Sent to the baseline as bearer token; never written to a report.  "
    "[default: none at another address than URL's]",
)
@admin_key_option("Sent to the admin port as bearer token; never written to a report.")
@JSON_FILE
@click.option("--html", "html_file", type=OUTPUT_FILE, help="Write the report as a page here.")
@click.option(
    "--sign",
    "key_file",
    type=INPUT_FILE,
    metavar="KEY",
    help="Sign the JSON report with this Ed25519 private key (PEM or OpenSSH).",
)
@click.option(
    "--previous",
    "previous_file",
    type=INPUT_FILE,
    metavar="FILE",
    help="Compare with this report.",
)
@click.option(
    "--resume", "resumes", is_flag=True, help="Keep the finished checks of the report in --json."
)
@click.option(
    "--verify",
    "verified_file",
    type=INPUT_FILE,
    metavar="FILE",
    help="Only check the schema and the signature of this report: exit code 0 valid, 1 not.",
)
@click.option(
    "--public-key",
    "public_key_file",
    type=INPUT_FILE,
    metavar="KEY",
    help="With --verify: the only key that is accepted.",
)
def validate(
    url: str | None, verified_file: str | None, public_key_file: str | None, **options: Any
) -> None:
    """Validate, or verify a report; the exit code is the verdict."""
    if verified_file is not None:
        if url is not None:
            raise click.UsageError("--verify checks a report; leave URL out.")
        _verify(Path(verified_file), public_key_file)
        return
    if public_key_file is not None:
        raise click.UsageError("--public-key is for --verify.")
    if url is None:
        raise click.UsageError("Give the URL of the deployment, or --verify FILE.")
    try:
        _validate(url, options)
    except click.ClickException:
        raise
    except KeyboardInterrupt:  # while the libraries are imported; click would exit with 1
        raise ValidationNotMade("interrupted before the first check") from None
    except Exception as error:  # Python's exit code 1 would be a verdict.
        from paceline.workbench.audit.command import describe_defect

        raise ValidationNotMade(describe_defect(error, "validation")) from error


def _verify(file: Path, public_key_file: str | None) -> None:
    from paceline.operations.validate.report.reading import ReportUnreadable, read_json, to_document
    from paceline.operations.validate.report.signing import (
        KeyUnusable,
        SignatureInvalid,
        check_signature,
        load_public_key,
    )

    try:
        key = None if public_key_file is None else load_public_key(Path(public_key_file))
        values = read_json(file)
        document = to_document(values, file)
        signer = check_signature(values, key)
    except KeyUnusable as error:
        raise ValidationNotMade(str(error)) from error
    except (ReportUnreadable, SignatureInvalid) as error:
        click.echo(f"not valid: {printable(error)}")
        sys.exit(_INVALID)
    click.echo(f"valid: signed by {signer}")
    if key is None:
        click.echo("Whose key this is, --public-key decides.")
    server = document.server
    click.echo(
        printable(
            f"{document.verdict}: {server.url}, {server.model}, tier {document.tier.name}, "
            f"{document.environment.date_utc}"
        )
    )


def _validate(url: str, options: dict[str, Any]) -> None:
    from rich.console import Console

    from paceline.foundation.command_line.interruption import sigint_ignored
    from paceline.foundation.workloads import WorkloadError
    from paceline.operations.validate.checks import CHECKS, Check
    from paceline.operations.validate.report.document import EXIT_CODES
    from paceline.operations.validate.report.lines import render_result, render_summary
    from paceline.operations.validate.report.reading import ReportUnreadable
    from paceline.operations.validate.report.signing import KeyUnusable
    from paceline.operations.validate.running import Run, choose_checks
    from paceline.operations.validate.settings import ValidationSettings
    from paceline.operations.validate.values import ValidationError

    address = read_address("URL", url)
    assert address is not None
    baseline = read_address("--baseline", options["baseline"])
    keys = options["api_key"], options["baseline_api_key"]
    settings = ValidationSettings(
        url=address,
        **{
            **options,
            "admin_url": read_address("--admin-url", options["admin_url"]),
            "baseline": baseline,
            "baseline_api_key": choose_other_key(address, baseline, *keys),
            **{name: _path(options[name]) for name in _FILES},
        },
    )
    ids = [check.id for check in CHECKS]
    _refuse_unknown("--only", settings.only, ids)
    _refuse_unknown("--require", settings.required, [c.id for c in choose_checks(settings.only)])
    refuse_unwritable_file("--json", settings.json_file)
    refuse_unwritable_file("--html", settings.html_file)
    _refuse_lone_options(settings.json_file, settings.key_file, settings.resumes)
    console = Console(stderr=True)
    num = len(choose_checks(settings.only))

    def show(number: int, check: Check[Any]) -> None:
        if console.is_terminal:
            console.print(f"{number}/{num} {check.id} …", markup=False, highlight=False, end="\r")

    try:
        run = Run(
            settings, on_begin=show, on_result=lambda result: click.echo(render_result(result))
        )
        document = run.run()
    except (ValidationError, ReportUnreadable, KeyUnusable, WorkloadError, OSError) as error:
        raise ValidationNotMade(str(error)) from error
    with sigint_ignored():
        for line in render_summary(document):
            click.echo(line)
    sys.exit(EXIT_CODES[document.verdict])


_FILES = ("json_file", "html_file", "key_file", "previous_file")


def _path(file: str | None) -> Path | None:
    return None if file is None else Path(file)


def _refuse_unknown(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise click.UsageError(
                f"{option} is {name}, which is no check that runs; those are {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )


def _refuse_lone_options(json_file: Path | None, key_file: Path | None, resumes: bool) -> None:
    for option, is_given in (("--sign", key_file is not None), ("--resume", resumes)):
        if is_given and json_file is None:
            raise click.UsageError(f"{option} needs --json FILE, the report.")
