"""The commands on a recording, and how it ends, with real files."""

from __future__ import annotations

import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.recording.reading import Recording, read_recording
from paceline.runtime.engine.recording.bounded_file import BoundedFile
from paceline.runtime.engine.recording.other_lengths import PERIOD
from paceline.runtime.engine.recording.recorder import MIN_BYTES, Recorder
from unit.engine.recording.requests import Request, sample
from unit.recording.lines import HEADER


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "engine-0.recording.jsonl"


@pytest.fixture
def recorder(file: Path, clock: Clock) -> Recorder:
    return Recorder(file, lambda: HEADER, clock)


def serve(recorder: Recorder, *names: str, num_steps: int = 1) -> None:
    """Requests that arrive, run for some steps and end."""
    requests = {name: Request(name) for name in names}
    for request in requests.values():
        recorder.request_added(request, None)
    for _ in range(num_steps):
        step(recorder, names, requests)
    step(recorder, names, {})


def step(recorder: Recorder, names: Sequence[str], requests: Mapping[str, Request]) -> None:
    recorder.step_answered(sample(), names, requests, {}.get)
    recorder.step_finished(sample(), requests)


def read(file: Path) -> Recording:
    return read_recording(file)


def test_nothing_is_recorded_until_it_is_started(recorder: Recorder, file: Path) -> None:
    serve(recorder, "a")
    status = recorder.command({"action": "status"})
    assert (status["recording"], status["exists"], status["num_steps"]) == (False, False, 0)
    assert not file.exists()
    assert not recorder.is_recording


def test_a_recording_is_started_stopped_and_deleted(
    recorder: Recorder, file: Path, clock: Clock
) -> None:
    started = recorder.command({"action": "start"})
    assert (started["recording"], started["max_bytes"]) == (True, 64 * 1024 * 1024)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    clock.now_s += 2.0
    serve(recorder, "a", "b", num_steps=3)
    stopped = recorder.command({"action": "stop"})
    assert (stopped["recording"], stopped["ended"], stopped["error"]) == (False, "stopped", None)
    assert (stopped["num_requests"], stopped["num_steps"], stopped["seconds"]) == (2, 4, 2.0)
    assert stopped["bytes"] == file.stat().st_size
    recording = read(file)
    assert len(recording.requests) == 2
    assert recording.end is not None
    assert (recording.end.reason, recording.end.at_s) == ("stopped", 2.0)
    deleted = recorder.command({"action": "delete"})
    assert (deleted["exists"], file.exists()) == (False, False)


def test_an_earlier_recording_is_never_overwritten(recorder: Recorder, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("earlier")
    with pytest.raises(ValueError, match="; move it away, or delete it"):
        recorder.command({"action": "start"})
    assert file.read_text() == "earlier"
    recorder.command({"action": "delete"})
    recorder.command({"action": "start"})
    recorder.close()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ({}, "action is None; it must be one of start, status, stop, delete"),
        ({"action": "pause"}, "action is 'pause'"),
        ({"action": "status", "max_bytes": 10**6}, "status takes no key 'max_bytes'"),
        ({"action": "start", "file": "/etc/passwd"}, "start takes no key 'file'"),
        ({"action": "start", "max_bytes": 10}, "max_bytes is 10; it must be a number from 65536"),
        ({"action": "start", "max_bytes": True}, "max_bytes is True"),
        ({"action": "start", "max_seconds": float("nan")}, "max_seconds is nan"),
        ({"action": "start", "max_seconds": "5"}, "max_seconds is '5'"),
        ({"action": "stop"}, "nothing is being recorded"),
        ({"action": "delete"}, "there is no recording in"),
    ],
)
def test_a_wrong_command_is_refused_and_changes_nothing(
    recorder: Recorder, file: Path, command: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        recorder.command(command)
    assert not recorder.is_recording
    assert not file.exists()


@pytest.mark.parametrize("action", ["start", "delete"])
def test_a_recording_under_way_is_stopped_first(recorder: Recorder, action: str) -> None:
    recorder.command({"action": "start"})
    with pytest.raises(ValueError, match="a recording is under way; stop it first"):
        recorder.command({"action": action})
    assert recorder.is_recording
    recorder.close()


def test_without_a_file_recording_is_refused() -> None:
    recorder = Recorder(None, lambda: HEADER)
    with pytest.raises(ValueError, match="no file for recordings; set recording_file"):
        recorder.command({"action": "start"})


def test_a_recording_ends_at_its_size_with_a_file_within_it(recorder: Recorder, file: Path) -> None:
    """Its last line says so; serving continues."""
    recorder.command({"action": "start", "max_bytes": MIN_BYTES})
    for number in range(600):
        serve(recorder, f"request-{number}")
    status = recorder.command({"action": "status"})
    assert (status["recording"], status["ended"]) == (False, "size")
    assert MIN_BYTES - 1000 < file.stat().st_size <= MIN_BYTES
    recording = read(file)
    assert recording.end is not None
    assert recording.end.reason == "size"


def test_a_recording_ends_after_its_time_on_an_idle_engine_too(
    recorder: Recorder, file: Path, clock: Clock
) -> None:
    recorder.command({"action": "start", "max_seconds": 60})
    serve(recorder, "a")
    clock.now_s += 61.0
    assert recorder.command({"action": "status"})["ended"] == "time"
    recording = read(file)
    assert recording.end is not None
    assert recording.end.reason == "time"


def test_a_late_stop_of_an_idle_engine_does_not_lengthen_the_recording(
    recorder: Recorder, file: Path, clock: Clock
) -> None:
    """Stopped 10 h after the start: the recording ended after its hour, so rates are right."""
    recorder.command({"action": "start"})
    serve(recorder, "a")
    clock.now_s += 36_000.0
    stopped = recorder.command({"action": "stop"})
    assert (stopped["ended"], stopped["seconds"]) == ("time", 3600.0)
    recording = read(file)
    assert recording.end is not None
    assert recording.end.at_s == 3600.0
    assert recording.blocks[-1].to_s == 3600.0


def test_a_request_after_the_time_limit_is_not_recorded(
    recorder: Recorder, file: Path, clock: Clock
) -> None:
    recorder.command({"action": "start", "max_seconds": 60})
    clock.now_s += 61.0
    serve(recorder, "late")
    assert recorder.command({"action": "status"})["ended"] == "time"
    assert read(file).requests == ()


def test_a_slow_file_system_does_not_hold_up_the_scheduler(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step finishes while the status looks at the file."""
    recorder.command({"action": "start"})
    finished = []

    def slow(path: Path) -> bool:
        thread = threading.Thread(target=serve, args=(recorder, "a"), daemon=True)
        thread.start()
        thread.join(60.0)
        finished.append(not thread.is_alive())
        return True

    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", slow)
        recorder.command({"action": "status"})
    recorder.close()
    assert finished == [True]


def test_a_recording_ends_with_its_engine(recorder: Recorder, file: Path) -> None:
    """Requests that still run are in it."""
    recorder.command({"action": "start"})
    recorder.request_added(Request("a"), None)
    recorder.close()
    recorder.close()
    recording = read(file)
    assert recording.end is not None
    assert (recording.end.reason, len(recording.requests)) == ("engine ended", 1)


def test_an_error_in_the_recorder_ends_the_recording_and_is_shown(
    recorder: Recorder, file: Path
) -> None:
    recorder.command({"action": "start"})
    recorder.fail(KeyError("planted"))
    status = recorder.command({"action": "status"})
    assert (status["recording"], status["ended"]) == (False, "failed")
    assert status["error"] == "KeyError: 'planted'"


def test_a_disk_that_fails_ends_the_recording(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("paceline.runtime.engine.recording.bounded_file.os.write", full)
    recorder.command({"action": "start"})
    for _ in range(1000):
        serve(recorder, "a")
        if not recorder.is_recording:
            break
    status = recorder.command({"action": "status"})
    assert status["ended"] == "failed"
    assert status["error"] == "writing failed: No space left on device"


def test_the_caller_never_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is blocked: lines are taken up to a bound, then refused; nothing blocks."""
    blocked = threading.Event()
    monkeypatch.setattr("paceline.runtime.engine.recording.bounded_file._MAX_WAITING_LINES", 10)
    monkeypatch.setattr(
        "paceline.runtime.engine.recording.bounded_file.os.write",
        lambda descriptor, data: blocked.wait(30) and len(data),
    )
    output = BoundedFile(tmp_path / "r", 10**6)
    taken = [output.put(b"line\n") for _ in range(20)]
    assert 10 <= taken.count(True) <= 11  # one is being written
    assert output.error == "the disk is too slow"
    blocked.set()
    output.close(b"")
    output.wait_closed(5.0)


def test_other_lengths_are_wanted_only_while_a_recording_that_asks_for_them_runs(
    recorder: Recorder,
) -> None:
    def wanted() -> set[int | None]:
        return {recorder.other_length(3) for _ in range(2 * PERIOD)}

    assert wanted() == {None}
    assert recorder.command({"action": "start", "vary_draft_length": True})["varies_draft_length"]
    assert wanted() == {None, 0, 1}
    assert not recorder.command({"action": "stop"})["varies_draft_length"]
    assert wanted() == {None}
    recorder.command({"action": "delete"})
    recorder.command({"action": "start"})
    assert wanted() == {None}


def test_varying_must_be_true_or_false(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="vary_draft_length is 1; it must be true or false"):
        recorder.command({"action": "start", "vary_draft_length": 1})
    assert not recorder.is_recording
