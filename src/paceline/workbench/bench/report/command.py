"""The command `paceline bench report`: an HTML page from the JSON of an earlier measurement."""

from __future__ import annotations

import json
from pathlib import Path

import click

from paceline.foundation.command_line.option_types import refuse_unwritable_file

_EXAMPLES = """\b
Examples:
  paceline bench report run.json --html run.html
  paceline bench report compare.json --html compare.html
"""


@click.command(
    name="report",
    help=(
        "Make one self-contained HTML page from FILE, the JSON of paceline bench run or compare. "
        "The page needs no network and prints well."
    ),
    epilog=_EXAMPLES,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--html",
    "html_file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page here.",
)
def report_command(file: Path, html_file: Path) -> None:
    """Read the document and write the page."""
    from paceline.workbench.bench.report.page import ReportError, write_report

    refuse_unwritable_file("--html", html_file)
    try:
        document = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file} is not readable JSON: {error}") from error
    if not isinstance(document, dict):
        raise click.ClickException(f"{file} is not a JSON object")
    try:
        write_report(html_file, document)
    except ReportError as error:
        raise click.ClickException(f"{file} cannot be shown: {error}") from error
