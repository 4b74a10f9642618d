"""Options and their types that several commands share, and the check of output files.

Imports nothing heavy, so that `--help` stays fast.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.near_names import did_you_mean

ABOVE_0 = FiniteFloat(min=0, min_open=True)
AT_LEAST_0 = FiniteFloat(min=0)
AT_LEAST_1 = click.IntRange(min=1)
INPUT_FILE = click.Path(exists=True, dir_okay=False)
OUTPUT_FILE = click.Path(dir_okay=False)


class NamedChoice(click.Choice[str]):
    """A choice whose refusal also names the one that was probably meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(value, map(str, self.choices))
            self.fail(f"{error.message.rstrip('.')}{near}" if near else error.message, param, ctx)


SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
JSON_FILE = click.option("--json", "json_file", type=OUTPUT_FILE, help="Write the report here.")


def refuse_unwritable_file(option: str, file: str | Path | None) -> None:
    """Raise `click.UsageError` if `file` cannot be written.

    "-" is standard output, None is no file.
    """
    if file is None or str(file) == "-":
        return
    path = Path(file)
    parent = path.absolute().parent
    if not os.path.isdir(parent):
        raise click.UsageError(f"{option} is {file}, in a folder that does not exist.")
    if not os.access(path if os.path.exists(path) else parent, os.W_OK):
        raise click.UsageError(f"{option} is {file}, which cannot be written.")


def refuse_unwritable_folder(option: str, folder: Path) -> None:
    """Raise `click.UsageError` if `folder` neither is a writable folder nor can become one."""
    # Path.exists raises for a path below a folder that the user may not enter.
    paths = (folder, *folder.absolute().parents)
    existing = next(path for path in paths if os.path.exists(path))
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise click.UsageError(f"{option} is {folder}: {existing} is no folder to write to.")
