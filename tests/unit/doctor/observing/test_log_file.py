"""The end of a log."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.observing import log_file
from paceline.operations.doctor.observing.log_file import read_log


def test_of_a_long_log_only_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_LOG_BYTES", 20)
    file = tmp_path / "log"
    file.write_text("first line\nsecond line\nthe last line\n")
    assert read_log(file) == ["the last line"]  # the words of the first half line may be a client's


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"\xffERROR\n")
    assert read_log(file) == ["\ufffdERROR"]


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="Is a directory"):
        read_log(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_byte_order_mark_is_no_part_of_a_line(tmp_path: Path, encoding: str) -> None:
    """PowerShell writes UTF-16 for `>`."""
    file = tmp_path / "log"
    file.write_bytes("OSError: x\r\nb\r\n".encode(encoding))
    assert read_log(file) == ["OSError: x", "b"]


def test_other_ends_of_lines_are_part_of_an_answer(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("INFO response_body={a\u2028CUDA out of memory\x85OOMKilled}\n")
    assert read_log(file) == ["INFO "]


def test_a_compressed_log_is_refused_with_the_command(tmp_path: Path) -> None:
    file = tmp_path / "vllm.log.1.gz"
    file.write_bytes(gzip.compress(b"CUDA out of memory\n"))
    with pytest.raises(DoctorError, match=r"is compressed; unpack it first \(gzip -d\)"):
        read_log(file)
