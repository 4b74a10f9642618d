"""The training corpus: the standard library of the running CPython, and its held-out files.

Generated tables (character maps, help topics) and files that do not parse are excluded. The
hash of a file's name decides whether the file is held out. So the other files stay where they are
when one is added or removed.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.distillation import held_out

HELD_OUT_PER_THOUSAND = 40
"""Chosen empirically: about 4 % of the files, some 60, enough for every figure in the card."""

_EXCLUDED = ("site-packages", "encodings", "pydoc_data", "__pycache__", "lib2to3/tests/data")
_MAX_FILE_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the corpus; `name` is relative to the library's folder, with slashes."""

    name: str
    text: str

    @property
    def is_test(self) -> bool:
        return any(part in ("test", "tests", "idle_test") for part in self.name.split("/"))


def is_held_out(name: str) -> bool:
    """Whether training must not see the file; depends on the name alone."""
    return held_out.is_held_out(name, HELD_OUT_PER_THOUSAND)


def read_standard_library(folder: Path | None = None) -> Iterator[SourceFile]:
    """Every usable source file, sorted by name.

    Raises FileNotFoundError when the folder holds no Python source (a stripped installation).
    """
    root = folder or Path(sysconfig.get_paths()["stdlib"])
    found = False
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()):
        name = path.relative_to(root).as_posix()
        if any(part in f"{name}" for part in _EXCLUDED) or path.stat().st_size > _MAX_FILE_BYTES:
            continue
        text = _read_python(path)
        if text:
            found = True
            yield SourceFile(name, text)
    if not found:
        raise FileNotFoundError(
            f"{root} holds no readable Python source; training needs the standard library's "
            "source, as installed with CPython 3.11"
        )


def _read_python(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # test files contain invalid escapes
            ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return None
    return text.replace("\r\n", "\n").expandtabs(8)
