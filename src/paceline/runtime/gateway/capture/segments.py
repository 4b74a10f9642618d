"""The files of a capture: segments that are deleted whole, oldest first.

A segment is a file `prompts-<milliseconds since 1970>-<process>.jsonl`, written by one process and
readable by its user only. Several processes may share a folder. Each one begins a new segment when
the last has reached its size or its age, and deletes first what is too old or too much:

    segment    <= bound / 8 / processes
    before a new one, all others together <= 7/8 bound
    a segment is written for at most 1/8 of the age, and deleted when its first line has that age

So neither bound is exceeded, and whatever is younger than 7/8 of the age stays if there is room.
Anyone may delete segments at any time: a process that writes one notices, and begins another.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

PARTS = 8
_NAME = re.compile(r"prompts-(\d{1,16})-(\d{1,10})\.jsonl")


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the folder."""

    path: Path
    begun_s: float
    """Of its first line, seconds since 1970."""
    num_bytes: int


@dataclass(frozen=True, slots=True)
class CaptureBounds:
    """How much is kept, and for how long."""

    max_bytes: int
    max_age_s: float
    num_processes: int = 1

    @property
    def segment_bytes(self) -> int:
        return self.max_bytes // PARTS // self.num_processes

    @property
    def segment_age_s(self) -> float:
        return self.max_age_s / PARTS


def segments_to_delete(
    segments: Iterable[Segment], bounds: CaptureBounds, now_s: float
) -> list[Segment]:
    """Those that are too old, and the oldest until the others fit beside a new one of each
    process."""
    oldest_first = sorted(segments, key=lambda segment: segment.begun_s)
    left_bytes = sum(segment.num_bytes for segment in oldest_first)
    room = bounds.max_bytes - bounds.segment_bytes * bounds.num_processes
    chosen = []
    for segment in oldest_first:
        if segment.begun_s > now_s - bounds.max_age_s and left_bytes <= room:
            break
        chosen.append(segment)
        left_bytes -= segment.num_bytes
    return chosen


class CaptureFolder:
    """The segments on disk. Its methods block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Create the folder, for this user only, unless it exists. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def segments(self) -> list[Segment]:
        """All segments, oldest first. Other files are none. Raises OSError but for a missing
        folder."""
        found = []
        try:
            entries = list(os.scandir(self.path))
        except FileNotFoundError:
            return []
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is None or not entry.is_file(follow_symlinks=False):
                continue
            try:
                num_bytes = entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
            found.append(Segment(Path(entry.path), int(match[1]) / 1e3, num_bytes))
        return sorted(found, key=lambda segment: segment.begun_s)

    def delete(self, segments: Iterable[Segment]) -> list[Segment]:
        """Delete these; return those deleted. Raises OSError but for one that is gone."""
        deleted = []
        for segment in segments:
            try:
                segment.path.unlink()
            except FileNotFoundError:
                continue
            deleted.append(segment)
        return deleted

    def keep_within(self, bounds: CaptureBounds, now_s: float) -> None:
        """Delete what is too old or too much. Raises OSError."""
        self.delete(segments_to_delete(self.segments(), bounds, now_s))

    def open_segment(self, now_s: float) -> tuple[Path, int]:
        """Create a segment, accessible to this user only, with its descriptor. Raises OSError."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        milliseconds = int(now_s * 1e3)
        while True:
            path = self.path / f"prompts-{milliseconds}-{os.getpid()}.jsonl"
            try:
                return path, os.open(path, flags, 0o600)
            except FileExistsError:
                milliseconds += 1


class SegmentWriter:
    """Writes lines of one process, within the bounds. Not thread-safe; it blocks."""

    def __init__(self, folder: CaptureFolder, bounds: CaptureBounds) -> None:
        self._folder = folder
        self._bounds = bounds
        self._path = folder.path
        self._descriptor: int | None = None
        self._begun_s = 0.0
        self._num_bytes = 0

    def write(self, line: bytes, now_s: float) -> None:
        """Write a line, which must not be longer than a segment. Raises OSError.

        A line that cannot be written whole is cut off the segment: the files can be concatenated.
        """
        if self._descriptor is None or not self._may_continue(len(line), now_s):
            self.close()
            self._folder.keep_within(self._bounds, now_s)
            self._path, self._descriptor = self._folder.open_segment(now_s)
            self._begun_s, self._num_bytes = now_s, 0
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._num_bytes)
            raise
        self._num_bytes += len(line)

    def tidy(self, now_s: float) -> None:
        """End a segment that is old enough, and delete what is too old. Raises OSError."""
        if self._descriptor is not None and not self._may_continue(0, now_s):
            self.close()
        self._folder.keep_within(self._bounds, now_s)

    def close(self) -> None:
        """End the segment. Idempotent.

        One without a line is deleted: on a full disk, every failed request would leave a file.
        """
        if self._descriptor is not None:
            if not self._num_bytes:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def _may_continue(self, num_bytes: int, now_s: float) -> bool:
        assert self._descriptor is not None
        return (
            self._num_bytes + num_bytes <= self._bounds.segment_bytes
            and 0 <= now_s - self._begun_s < self._bounds.segment_age_s
            and os.fstat(self._descriptor).st_nlink > 0
        )
