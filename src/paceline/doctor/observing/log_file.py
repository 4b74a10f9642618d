"""Read the end of an engine's log."""

from __future__ import annotations

import os
from pathlib import Path

from paceline.doctor.errors import DoctorError

MAX_LOG_BYTES = 8 * 2**20
"""Of a longer log only the end is read: it has the last start."""


def read_log(file: Path) -> list[str]:
    """The lines of its last 8 MiB. Raises DoctorError."""
    try:
        with file.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - MAX_LOG_BYTES))
            return log.read(MAX_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise DoctorError(f"{file} cannot be read: {error.strerror or error}") from error
