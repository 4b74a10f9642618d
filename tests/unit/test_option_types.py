"""Files and folders that a command cannot write are refused before it does its work."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import click
import pytest

from paceline.foundation.command_line.option_types import (
    refuse_unwritable_file,
    refuse_unwritable_folder,
)


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"--json is .*, in a folder that does not exist"):
        refuse_unwritable_file("--json", tmp_path / "gone" / "x.json")
    with pytest.raises(click.UsageError, match=r"--html is /nonexist/x\.html"):
        refuse_unwritable_file("--html", "/nonexist/x.html")


def test_a_file_that_the_user_may_not_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(click.UsageError, match="which cannot be written"):
        refuse_unwritable_file("--json", tmp_path / "x.json")


def test_standard_output_new_files_and_no_file_pass(tmp_path: Path) -> None:
    refuse_unwritable_file("--json", "-")
    refuse_unwritable_file("--json", None)
    refuse_unwritable_file("--json", tmp_path / "new.json")


def test_a_folder_may_be_new_but_not_below_a_file(tmp_path: Path) -> None:
    refuse_unwritable_folder("--write", tmp_path / "new" / "deeper")
    (tmp_path / "file").write_text("")
    with pytest.raises(click.UsageError, match=r"--write is .*: .*file is no folder to write to"):
        refuse_unwritable_folder("--write", tmp_path / "file" / "folder")


def test_a_path_that_cannot_be_looked_up_is_refused_and_no_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a folder that the user may not enter, `Path.exists` raises until Python 3.12."""
    closed = tmp_path / "closed"
    closed.mkdir()
    stat = os.stat

    def refuse(path: object, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return stat(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("os.stat", refuse)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != closed)
    with pytest.raises(click.UsageError, match="is no folder to write to"):
        refuse_unwritable_folder("--out", closed / "new" / "deeper")
    with pytest.raises(click.UsageError, match="which cannot be written"):
        refuse_unwritable_file("--json", closed / "x.json")
