"""The folder that a quantization writes: complete under its name, or unfinished beside it.

Work is done in a hidden sibling, `.NAME.partial`, which is renamed when everything is written. An
interrupted run leaves the sibling; a run with the same inputs continues in it, any other begins
anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.quantized.errors import QuantizeError, WrongUsage

_KEY = "paceline-partial.json"


class OutputFolder:
    """The unfinished folder of one run. Use it as made by `open_output`."""

    def __init__(self, final: Path, partial: Path, *, continues: bool) -> None:
        self.final = final
        self.path = partial
        """Where files are written."""
        self.continues = continues
        """Whether an earlier run with the same inputs left files here."""

    def files(self) -> list[Path]:
        """Return the files that were written, by name."""
        return [path for path in sorted(self.path.iterdir())
                if path.is_file() and path.name != _KEY]  # fmt: skip

    def finish(self) -> None:
        """Rename to the final name. Everything must be written."""
        with contextlib.suppress(FileNotFoundError):
            self.final.rmdir()  # an empty folder, which `open_output` allows
        (self.path / _KEY).unlink()  # after all that may fail: a run without it begins anew
        self.path.rename(self.final)


@contextlib.contextmanager
def open_output(final: Path, inputs: Mapping[str, Any]) -> Iterator[OutputFolder]:
    """Open the unfinished folder for `final`, locked against a second run.

    `inputs` identify the run; files of a run with others are removed. Raises WrongUsage if
    `final` is in use (`check_free`), QuantizeError if another run writes it.
    """
    check_free(final)
    partial = partial_of(final)
    lock = final.parent / f".{final.name}.lock"
    final.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise QuantizeError(f"another run is writing {final}; wait for it to end") from None
        try:
            yield _prepare(final, partial, inputs)
        finally:
            with contextlib.suppress(FileNotFoundError):
                lock.unlink()


def partial_of(final: Path) -> Path:
    """Return the hidden sibling in which the work for `final` is done."""
    return final.parent / f".{final.name}.partial"


def check_free(final: Path) -> None:
    """Raise WrongUsage if `final` exists, except as an empty folder that can be replaced."""
    if final.is_symlink():
        raise WrongUsage(f"--out is {final}, a symbolic link; name the folder that it leads to")
    if final.is_dir() and not any(final.iterdir()):
        if final.samefile(Path.cwd()) or final.is_mount():
            raise WrongUsage(
                f"--out is {final}, the current folder or a mount point, which cannot be replaced; "
                f"name a folder in it, such as {final / 'model'}"
            )
        return
    if final.exists():
        raise WrongUsage(f"--out is {final}, which exists; choose a new folder, or remove it")


def _prepare(final: Path, partial: Path, inputs: Mapping[str, Any]) -> OutputFolder:
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()
    file = partial / _KEY
    found: Any = None
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(found, dict) and found.get("inputs") == key:
        return OutputFolder(final, partial, continues=True)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir()
    temporary = partial / f"{_KEY}.tmp"
    temporary.write_text(json.dumps({"inputs": key}))
    os.replace(temporary, file)
    return OutputFolder(final, partial, continues=False)
