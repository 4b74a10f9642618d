"""`KeyFile`: read a key file, read it again when it changes, and change it atomically.

Writers replace the file in one step, one at a time, so a reader sees the whole old file or the
whole new one. When a changed file cannot be read, the keys read before stay in force.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from paceline.foundation.files.bounded_reading import read_bounded
from paceline.runtime.gateway.keys.record import (
    MAX_FILE_BYTES,
    KeyRecord,
    KeysUnusable,
    parse_records,
)
from paceline.runtime.gateway.keys.ring import KeyRing
from paceline.runtime.gateway.time_limits import KEY_CHECK_PERIOD_S

logger = logging.getLogger(__name__)

_Version = tuple[int, int, int] | None
"""Inode, length and ctime (which covers changes of the mode) of the file that was read; None when
there was none."""


class KeyFile:
    """The current keys of one file. Raises `KeysUnusable` when it cannot be used at the start.

    With `other`, the file of keys of another port, it is also unusable while a key is in both.
    """

    _version: _Version
    _ring: KeyRing

    def __init__(self, path: Path, other: Path | None = None) -> None:
        self._path = path
        self._other = other
        self._use(*_read(path, other))
        self._checked_at_s = time.monotonic()

    def ring(self) -> KeyRing:
        """The keys in force. Checks the file at most once per second; does not raise."""
        now_s = time.monotonic()
        if now_s - self._checked_at_s >= KEY_CHECK_PERIOD_S:
            self._checked_at_s = now_s
            self._read_if_changed()
        return self._ring

    def _read_if_changed(self) -> None:
        version = _version_of(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            self._use(*_read(self._path, self._other))
        except KeysUnusable as error:
            logger.error("%s; the keys read before stay in force", error)
        else:
            logger.info("%s: %d keys are in force", self._path, len(self._ring))

    def _use(self, status: os.stat_result, ring: KeyRing) -> None:
        self._version, self._ring = _version_in(status), ring
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            logger.warning(
                "%s is writable by other users; remove that permission: chmod go-w", self._path
            )
        if not len(ring):
            logger.warning("%s has no keys, so its port refuses every request", self._path)


def check_key_file(path: Path, other: Path | None = None) -> None:
    """Raise `KeysUnusable` unless `KeyFile` can use the file. Logs nothing."""
    _read(path, other)


def change_text(path: Path, change: Callable[[str], str]) -> None:
    """Replace the text of a file of keys in one step; a new file gets mode 0600.

    Concurrent callers wait for each other. Raises `KeysUnusable` when the file cannot be written,
    and what `change` raises; the file is then unchanged.
    """
    path = Path(os.path.realpath(path))  # replaces the target of a link, not the link
    try:
        with _locked(path.parent):
            before = read_text(path) if path.exists() else ""
            _replace(path, change(before).encode())
    except OSError as error:
        raise KeysUnusable(f"{path} cannot be written: {error.strerror}") from None


def read_text(path: Path) -> str:
    """The text of a file of keys, at most `MAX_FILE_BYTES`."""
    return _read_text(path)[1]


def create_private(path: Path, content: bytes) -> None:
    """Create a file that only its owner may read; FileExistsError when it already exists.

    It appears complete, so no reader sees a part of it.
    """
    temporary = _write_beside(path, content, 0o600)
    try:
        os.link(temporary, path)
    finally:
        temporary.unlink()


def _read(path: Path, other: Path | None) -> tuple[os.stat_result, KeyRing]:
    status, records = _read_records(path)
    if other is not None:
        _refuse_shared(path, records, other, _read_records(other)[1])
    return status, KeyRing(records)


def _read_records(path: Path) -> tuple[os.stat_result, tuple[KeyRecord, ...]]:
    status, text = _read_text(path)
    try:
        return status, parse_records(text)
    except KeysUnusable as error:
        raise KeysUnusable(f"{path}, {error}") from None


def _refuse_shared(
    path: Path, records: Iterable[KeyRecord], other: Path, others: Iterable[KeyRecord]
) -> None:
    """A key of a client without a role would open the admin port."""
    known = {part for one in others for part in (one.id, one.secret_sha256)}
    for record in records:
        if not known.isdisjoint((record.id, record.secret_sha256)):
            raise KeysUnusable(
                f"{path} has the key {record.id}, which is also in {other}; create another key for "
                "one of the two ports, and remove it from that file"
            )


def _read_text(path: Path) -> tuple[os.stat_result, str]:
    try:
        status, content = read_bounded(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise KeysUnusable(
            f"{path} does not exist; paceline keys create creates it with its first key"
        ) from None
    except OSError as error:
        raise KeysUnusable(f"{path} cannot be read: {error.strerror}") from None
    try:
        return status, content.decode("utf-8-sig")  # some editors put a byte order mark in front
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise KeysUnusable(f"{path}, line {line}: it is not UTF-8") from None


def _version_of(path: Path) -> _Version:
    try:
        return _version_in(path.stat())
    except OSError:
        return None


def _version_in(status: os.stat_result) -> _Version:
    return status.st_ino, status.st_size, status.st_ctime_ns


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Admit one writer at a time. It locks the folder, because the file itself is replaced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)  # the replaced name survives a power cut
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Keep mode and owner: the gateway may run as another user than the one who creates keys."""
    try:
        before = path.stat()
    except FileNotFoundError:
        _write_beside(path, content, 0o600).replace(path)
        return
    temporary = _write_beside(path, content, stat.S_IMODE(before.st_mode))
    try:
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temporary, before.st_uid, before.st_gid)
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise


def _write_beside(path: Path, content: bytes, mode: int) -> Path:
    """Write the content to a file with a unique name in the same folder."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return temporary
