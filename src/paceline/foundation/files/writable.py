"""Find out whether a file can be created, or files in a folder, and leave none."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def check_creatable(file: Path) -> None:
    """Raise OSError unless `file`, which does not exist, can be created in its folder."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
    check_writable_folder(folder)


def check_writable_folder(folder: Path) -> None:
    """Raise OSError unless `folder`, or the first of its parents that exists, takes new files."""
    existing = next(
        (one for one in (folder, *folder.absolute().parents) if os.path.lexists(one)), folder
    )
    with tempfile.TemporaryFile(dir=existing):  # has no name, or loses it at once
        pass
