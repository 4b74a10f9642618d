"""The commit of the Paceline that runs, if it runs from a git checkout."""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass
from pathlib import Path

import paceline

_GIT_TIMEOUT_S = 10.0
_NO_SOURCE = ":(top,exclude)benchmarks/results"
"""New results do not change what the next one measures."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """All fields are None outside a checkout, such as in an installed package."""

    commit: str | None
    """Full hash."""
    changes: tuple[str, ...] | None
    """Lines of `git status --porcelain`: files that differ from the commit, or that it lacks."""

    @property
    def is_dirty(self) -> bool | None:
        return None if self.changes is None else bool(self.changes)


@functools.cache
def source_state() -> SourceState:
    """The state of the checkout when this process first asked for it.

    Later commits do not change what runs, so the first answer is kept.
    """
    return read_source_state(Path(paceline.__file__).parent)


def read_source_state(package: Path) -> SourceState:
    """The state of the checkout that contains the folder `package`.

    A package that is installed inside another project's checkout is not tracked there, and counts
    as outside of a checkout.
    """
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return SourceState(None, None)
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ":/", _NO_SOURCE)
    if commit is None or changes is None:
        return SourceState(None, None)
    return SourceState(commit.strip(), tuple(changes.splitlines()))


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git; None if it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
