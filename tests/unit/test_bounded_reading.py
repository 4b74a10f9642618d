"""A path from outside may lead to anything; reading it ends, and takes bounded memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from paceline.foundation.files.bounded_reading import read_bounded

WITHIN_S = 60.0
"""Ends a test that hangs; decides nothing."""


def test_a_file_is_read_up_to_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abcdef")
    for pipe_s in (None, WITHIN_S):
        assert read_bounded(file, 6, pipe_s)[1] == b"abcdef"
        with pytest.raises(OSError, match="longer than the 5 bytes"):
            read_bounded(file, 5, pipe_s)


def test_a_pipe_is_read_in_pieces_until_its_writer_closes_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = os.urandom(500_000)
    writing = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writing.start()
    assert read_bounded(pipe, len(content), WITHIN_S)[1] == content
    writing.join()


def test_a_pipe_without_end_is_left_at_the_bound() -> None:
    read, write = os.pipe()
    os.write(write, b"x" * 1000)
    with pytest.raises(OSError, match="longer than the 999 bytes"):
        read_bounded(Path(f"/dev/fd/{read}"), 999, WITHIN_S)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "pipe"])
def test_only_files_are_read_where_a_pipe_makes_no_sense(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a file"):
        read_bounded(tmp_path / name, 10)
