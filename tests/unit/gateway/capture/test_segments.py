"""The bounds on disk space and age, the permissions, and deletion while a process writes."""

from __future__ import annotations

import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from paceline.runtime.gateway.capture.segments import (
    CaptureBounds,
    CaptureFolder,
    Segment,
    SegmentWriter,
    segments_to_delete,
)

BOUNDS = CaptureBounds(max_bytes=800, max_age_s=80.0)
"""Segments of 100 bytes and 10 s; up to 700 bytes beside a new one."""


def segment(begun_s: float, num_bytes: int = 100) -> Segment:
    return Segment(Path(f"{begun_s}"), begun_s, num_bytes)


@pytest.mark.parametrize(
    ("segments", "now_s", "deleted"),
    [
        ([], 100.0, []),
        ([segment(99.0)], 100.0, []),
        ([segment(20.0), segment(20.5)], 100.0, [20.0]),  # 80 s old
        ([segment(float(at)) for at in range(51, 58)], 100.0, []),  # 700 bytes
        ([segment(float(at)) for at in range(51, 60)], 100.0, [51.0, 52.0]),
        ([segment(57.0), segment(51.0, 700)], 100.0, [51.0]),  # oldest first, in any order
        ([segment(10.0), segment(51.0, 700)], 100.0, [10.0]),
    ],
)
def test_what_is_too_old_or_too_much_is_deleted(
    segments: list[Segment], now_s: float, deleted: list[float]
) -> None:
    assert [one.begun_s for one in segments_to_delete(segments, BOUNDS, now_s)] == deleted


def test_several_processes_share_the_bounds() -> None:
    bounds = CaptureBounds(max_bytes=800, max_age_s=80.0, num_processes=4)
    assert bounds.segment_bytes == 25
    many = [segment(float(at)) for at in range(51, 59)]
    assert [one.begun_s for one in segments_to_delete(many, bounds, 100.0)] == [51.0]


@pytest.fixture
def folder(tmp_path: Path) -> CaptureFolder:
    folder = CaptureFolder(tmp_path / "kept")
    folder.create()
    return folder


def test_folder_and_files_are_for_their_owner_only(folder: CaptureFolder) -> None:
    writer = SegmentWriter(folder, BOUNDS)
    writer.write(b"{}\n", 1000.0)
    (written,) = folder.segments()
    assert (written.begun_s, written.num_bytes) == (1000.0, 3)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(written.path.stat().st_mode) == 0o600


def test_the_bytes_on_disk_never_exceed_the_bound(folder: CaptureFolder) -> None:
    """Two processes write into one folder."""
    bounds = CaptureBounds(max_bytes=800, max_age_s=1e6, num_processes=2)
    writers = [SegmentWriter(folder, bounds) for _ in range(2)]
    for number in range(300):
        writers[number % 2].write(b"x" * 19 + b"\n", 1000.0 + number)
        total = sum(one.num_bytes for one in folder.segments())
        assert total <= 800
        assert max(one.num_bytes for one in folder.segments()) <= 50
    assert total >= 600
    text = b"".join(one.path.read_bytes() for one in folder.segments())
    assert set(text.split(b"\n")) == {b"x" * 19, b""}


def test_a_line_that_was_written_in_part_is_cut_off(folder: CaptureFolder) -> None:
    """A limit on the size of files stops a write halfway, as a full disk does."""
    writer = SegmentWriter(folder, BOUNDS)
    writer.write(b"whole\n", 1000.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            writer.write(b"more than fits\n", 1001.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.write(b"next\n", 1002.0)
    assert b"".join(one.path.read_bytes() for one in folder.segments()) == b"whole\nnext\n"


def test_lines_that_cannot_be_written_leave_no_files(
    folder: CaptureFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk takes no line, and creates files as before."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = SegmentWriter(folder, BOUNDS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        for number in range(5):
            with pytest.raises(OSError, match="No space"):
                writer.write(b"lost\n", 1000.0 + number)
            writer.close()
    assert folder.segments() == []
    writer.write(b"kept\n", 1005.0)
    writer.close()
    (left,) = folder.segments()
    assert left.path.read_bytes() == b"kept\n"


def test_a_line_is_deleted_when_it_reaches_the_age(folder: CaptureFolder) -> None:
    """A segment ends after an eighth of the age, so a young line is not deleted with an old one."""
    writer = SegmentWriter(folder, BOUNDS)
    writer.write(b"old\n", 1000.0)
    writer.write(b"also old\n", 1009.0)
    writer.write(b"young\n", 1011.0)
    writer.tidy(1079.0)
    assert len(folder.segments()) == 2
    writer.tidy(1080.0)
    (left,) = folder.segments()
    assert left.path.read_bytes() == b"young\n"


def test_an_idle_process_deletes_what_it_wrote_last(folder: CaptureFolder) -> None:
    writer = SegmentWriter(folder, BOUNDS)
    writer.write(b"{}\n", 1000.0)
    writer.tidy(1081.0)
    assert folder.segments() == []


def test_after_a_deletion_a_process_begins_another_segment(folder: CaptureFolder) -> None:
    writer = SegmentWriter(folder, BOUNDS)
    writer.write(b"first\n", 1000.0)
    assert len(folder.delete(folder.segments())) == 1
    writer.write(b"second\n", 1000.0)
    (left,) = folder.segments()
    assert left.path.read_bytes() == b"second\n"


def test_a_clock_that_is_set_back_begins_another_segment(folder: CaptureFolder) -> None:
    writer = SegmentWriter(folder, BOUNDS)
    writer.write(b"first\n", 1000.0)
    writer.write(b"second\n", 900.0)
    assert len(folder.segments()) == 2


def test_other_files_are_left_alone(folder: CaptureFolder) -> None:
    for name in ("prompts-1-1.jsonl.bak", "notes.txt", "prompts-x-1.jsonl"):
        (folder.path / name).write_text("mine")
    (folder.path / "prompts-1-2.jsonl").symlink_to(folder.path / "notes.txt")
    assert folder.segments() == []


def test_a_missing_folder_has_no_segments(tmp_path: Path) -> None:
    assert CaptureFolder(tmp_path / "gone").segments() == []
