"""Write the files that a command renders; a failure is an error message, not a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their path below `folder`; folders are created, files replaced.

    Raises `click.ClickException` at the first file that cannot be written.
    """
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise click.ClickException(
                f"{path} cannot be written: {error.strerror or error}"
            ) from None
