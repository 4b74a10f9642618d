"""A folder of files that is either whole, with the digest of each file, or not there.

It is written under another name and renamed when it is complete, so a process that is killed leaves
nothing half. `is_whole` reads every file, some 0.3 s for 300 MB.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_MANIFEST = "paceline-files.json"
_PART = ".part-"


def digest_of(file: Path) -> str:
    """The SHA-256 of a file. Raises OSError."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def is_whole(folder: Path) -> bool:
    """Whether every file of the folder has the content that it was written with."""
    try:
        digests = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return all(digest_of(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def write_whole(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, which then takes the place of `folder`. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}{_PART}{os.getpid()}-", dir=folder.parent))
    try:
        write(part)
        digests = {file.name: digest_of(file) for file in sorted(part.iterdir())}
        (part / _MANIFEST).write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
        part.chmod(0o755)
        for file in (*part.iterdir(), part):
            _flush(file)
        with contextlib.suppress(FileNotFoundError):  # damaged, or there since a moment
            shutil.rmtree(folder)
        part.rename(folder)
        _flush(folder.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed processes of this machine have left."""
    for part in folder.parent.glob(f"{folder.name}{_PART}*"):
        process = part.name.partition(_PART)[2].partition("-")[0]
        if process.isdecimal() and not Path("/proc", process).exists():
            shutil.rmtree(part, ignore_errors=True)


def _flush(path: Path) -> None:
    """Wait until the disk has it: a power cut must not leave an empty file in a whole folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
