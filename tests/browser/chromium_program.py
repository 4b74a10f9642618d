"""Find headless Chromium: on the path, or where `make` unpacks it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from missing_program import skip_or_fail

_UNPACKED = Path(__file__).parents[2] / ".clients" / "chromium"
_NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
_MISSING = (
    "Chromium is missing: run CLIENTS=.clients scripts/install-chromium.sh as root on Debian or "
    "Ubuntu, or put chromium or google-chrome on the path"
)


@dataclass(frozen=True)
class ChromiumProgram:
    """The program, and what it needs in the environment."""

    path: str
    environment: Mapping[str, str] = field(default_factory=dict)


def find_chromium() -> ChromiumProgram:
    """The browser for tests.

    Without it the test ends (`skip_or_fail`).
    """
    found = _search()
    if found is not None:
        return found
    skip_or_fail(_MISSING)


def _search() -> ChromiumProgram | None:
    unpacked = _UNPACKED / "usr/lib/chromium/chromium-headless-shell"
    if unpacked.exists():
        folders = sorted({str(file.parent) for file in (_UNPACKED / "usr/lib").rglob("*.so*")})
        return ChromiumProgram(str(unpacked), {"LD_LIBRARY_PATH": ":".join(folders)})
    for name in _NAMES:
        path = shutil.which(name)
        if path is not None:
            return ChromiumProgram(path)
    return None
