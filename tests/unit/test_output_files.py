"""Rendered files are written, or an error says which one cannot be."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.foundation.command_line.output_files import write_files


def test_files_are_written_and_replaced_in_folders_that_are_created(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "deeper"
    write_files(folder, {"a.txt": "ä\n", "sub/b.txt": "b"})
    write_files(folder, {"a.txt": "other\n"})
    assert (folder / "a.txt").read_bytes() == b"other\n"
    assert (folder / "sub" / "b.txt").read_text() == "b"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("a file where a folder is needed")
    with pytest.raises(click.ClickException, match=r"sub/b\.txt cannot be written: .*"):
        write_files(tmp_path, {"a.txt": "a", "sub/b.txt": "b"})
    (tmp_path / "c.txt").mkdir()
    with pytest.raises(click.ClickException, match=r"c\.txt cannot be written: Is a directory"):
        write_files(tmp_path, {"c.txt": "c"})


@pytest.mark.parametrize(
    "arguments",
    [
        ["render", "alerts", "--output"],
        ["render", "dashboards", "--output"],
        ["deploy", "render", "--tier", "startup", "--out"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("folder", ["/proc/x", "/" + "n" * 300], ids=["proc", "long"])
def test_a_folder_that_cannot_be_created_is_an_error_without_a_traceback(
    arguments: list[str], folder: str
) -> None:
    """For root, /proc looks like a folder to write to."""
    result = CliRunner().invoke(main, [*arguments, folder])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 2)
    assert folder in result.output
    assert "Error: " in result.output
