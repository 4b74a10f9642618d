"""Read the end of an engine's log."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.readings.engine_log import without_client_text

MAX_LOG_BYTES = 8 * 2**20
"""Of a longer log only the end is read: it has the last start."""
_COMPRESSED = {
    b"\x1f\x8b": "gzip -d",
    b"BZh": "bzip2 -d",
    b"\xfd7zXZ": "xz -d",
    b"(\xb5/\xfd": "zstd -d",
}
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_log(file: Path) -> list[str]:
    """The lines of its last 8 MiB, without the words of clients. Raises DoctorError."""
    try:
        with file.open("rb") as log:
            start = log.read(8)
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - MAX_LOG_BYTES))
            end = log.read(MAX_LOG_BYTES)
    except OSError as error:
        raise DoctorError(f"{file} cannot be read: {error.strerror or error}") from error
    for magic, command in _COMPRESSED.items():
        if start.startswith(magic):
            raise DoctorError(f"{file} is compressed; unpack it first ({command})")
    lines = _decoded(start, end).split("\n")  # an answer may hold other ends of lines
    if size > MAX_LOG_BYTES:
        lines = lines[1:]  # of the first line only a part was read, perhaps of an answer
    if lines and not lines[-1]:
        lines.pop()
    return list(without_client_text(line.rstrip("\r") for line in lines))


def _decoded(start: bytes, end: bytes) -> str:
    """As UTF-8, or as UTF-16, which PowerShell writes for `>`."""
    if start.startswith(_UTF_16) and b"\0" in end[:4096]:
        encoding = "utf-16-le" if start.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
        return end.decode(encoding, "replace").lstrip("\ufeff")
    return end.decode("utf-8", "replace").lstrip("\ufeff")
