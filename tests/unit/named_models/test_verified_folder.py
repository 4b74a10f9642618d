"""A folder that is whole or not there, whenever its writer is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paceline.foundation.named_models.verified_folder import is_whole, write_whole

FILES = {"config.json": "{}", "weights": "0123456789" * 1000}
WRITER = """
import os, sys
from pathlib import Path
from paceline.foundation.named_models.verified_folder import write_whole
def write(part):
    (part / "config.json").write_text("{}")
    if sys.argv[2] == "half":
        os.kill(os.getpid(), 9)
write_whole(Path(sys.argv[1]), write)
"""


def write(part: Path) -> None:
    for name, content in FILES.items():
        (part / name).write_text(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Its parents do not exist yet."""
    return tmp_path / "cache" / "models" / "m"


def test_a_written_folder_is_whole(folder: Path) -> None:
    assert not is_whole(folder)
    write_whole(folder, write)
    assert is_whole(folder)
    assert names_in(folder.parent) == ["m"]


@pytest.mark.parametrize("damage", ["changed", "missing", "manifest missing", "manifest broken"])
def test_a_damaged_folder_is_not_whole_and_is_replaced(folder: Path, damage: str) -> None:
    write_whole(folder, write)
    weights, manifest = folder / "weights", folder / "paceline-files.json"
    if damage == "changed":
        weights.write_text("1" + FILES["weights"][1:])
    elif damage == "missing":
        weights.unlink()
    elif damage == "manifest missing":
        manifest.unlink()
    else:
        manifest.write_text("[1]")
    assert not is_whole(folder)
    write_whole(folder, write)
    assert is_whole(folder)


def test_an_error_leaves_nothing(folder: Path) -> None:
    def fail(part: Path) -> None:
        write(part)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(folder, fail)
    assert names_in(folder.parent) == []


def test_what_a_killed_writer_left_is_removed(folder: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", WRITER, folder, "half"], check=False)
    assert killed.returncode == -9
    [part] = names_in(folder.parent)
    assert part.startswith("m.part-")
    assert not is_whole(folder)
    write_whole(folder, write)
    assert names_in(folder.parent) == ["m"]


def test_a_second_writer_waits_and_uses_what_the_first_has_written(folder: Path) -> None:
    """Its own would take the place of files that are being read."""
    has_begun, may_end = threading.Event(), threading.Event()

    def write_slowly(part: Path) -> None:
        has_begun.set()
        may_end.wait()
        write(part)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(write_whole, folder, write_slowly)
        has_begun.wait()
        second = pool.submit(write_whole, folder, lambda _: pytest.fail("it was written twice"))
        may_end.set()
        first.result()
        second.result()
    assert is_whole(folder)


def names_in(folder: Path) -> list[str]:
    """Without the lock, which stays."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")
