"""The bounded log that the guard writes; test_supervisor.py runs the guard itself."""

from __future__ import annotations

from pathlib import Path

from paceline.runtime.engine.process.guard import BoundedLog


def test_the_log_never_exceeds_its_bound(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "new" / "e.log", max_bytes=10)
    for chunk in (b"12345", b"67890", b"abc"):
        log.write(chunk)
    assert (tmp_path / "new" / "e.log").read_bytes() == b"abc"
    assert (tmp_path / "new" / "e.log.1").read_bytes() == b"1234567890"


def test_a_full_disk_loses_log_lines_and_raises_nothing() -> None:
    """/dev/full refuses every write."""
    log = BoundedLog(Path("/dev/full"))
    log.write(b"lost")
    log.write(b"lost too")


def test_the_log_reports_lost_bytes_when_writing_works_again(tmp_path: Path) -> None:
    """Rotation fails while a folder has the name of the older part."""
    log = BoundedLog(tmp_path / "e.log", max_bytes=1000)
    log.write(b"a" * 900)
    obstacle = tmp_path / "e.log.1" / "x"
    obstacle.mkdir(parents=True)
    log.write(b"b" * 200)
    log.write(b"c" * 200)
    obstacle.rmdir()
    obstacle.parent.rmdir()
    log.write(b"d" * 200)
    assert (tmp_path / "e.log.1").read_bytes() == b"a" * 900
    written = (tmp_path / "e.log").read_bytes()
    assert written.startswith(b"guard: 400 bytes of output are lost here: ")
    assert written.endswith(b"\n" + b"d" * 200)
