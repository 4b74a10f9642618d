"""Types and checks of the command line: finite numbers, and files that can be written."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import click


class FiniteFloatRange(click.FloatRange):
    """A number within a range; neither infinite nor "nan", which no comparison excludes."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or refuse it with the option's name."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def refuse_unwritable_file(option: str, file: Path) -> None:
    """Raise `click.UsageError` if `file` cannot be written; "-" is standard output."""
    if str(file) == "-":
        return
    parent = file.absolute().parent
    if not parent.is_dir():
        raise click.UsageError(f"{option} is {file}, in a folder that does not exist.")
    if not os.access(file if file.exists() else parent, os.W_OK):
        raise click.UsageError(f"{option} is {file}, which cannot be written.")


def refuse_unwritable_folder(option: str, folder: Path) -> None:
    """Raise `click.UsageError` if `folder` neither is a writable folder nor can become one."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise click.UsageError(f"{option} is {folder}: {existing} is no folder to write to.")
