"""The end of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.doctor.errors import DoctorError
from paceline.doctor.observing import log_file
from paceline.doctor.observing.log_file import read_log


def test_of_a_long_log_only_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_LOG_BYTES", 20)
    file = tmp_path / "log"
    file.write_text("first line\nsecond line\nthe last line\n")
    assert read_log(file) == [" line", "the last line"]


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"\xffERROR\n")
    assert read_log(file) == ["\ufffdERROR"]


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="Is a directory"):
        read_log(tmp_path)
