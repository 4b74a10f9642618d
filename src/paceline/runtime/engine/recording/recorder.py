"""`Recorder`: start, stop and delete the recording of one engine, and feed it while it runs.

Off until it is started. There is one recording at a time, in one file whose path is a setting of
the engine: commands carry no path. A recording ends on command, at its size, after its time, when
writing fails, or with the engine; the file stays until it is deleted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.recording.records import End, EndReason, Header, Line, encode
from paceline.runtime.engine.recording.bounded_file import BoundedFile
from paceline.runtime.engine.recording.other_lengths import OtherLengths
from paceline.runtime.engine.recording.session import RecordingSession

logger = logging.getLogger("vllm.paceline.recording")

ACTIONS = ("start", "status", "stop", "delete")
DEFAULT_BYTES = 64 * 1024 * 1024
MIN_BYTES = 64 * 1024
MAX_BYTES = 1024 * 1024 * 1024
DEFAULT_SECONDS = 3600.0
MAX_SECONDS = 7 * 86_400.0
_END_BYTES = 256
"""Room for the last line."""
_DISK_TIMEOUT_S = 1.5
"""Longest wait of a command, or of the engine's end, for the disk; the gateway waits 2 s for the
answer to a command. The lines are written anyway."""
_LIMITS = {
    "max_bytes": (DEFAULT_BYTES, MIN_BYTES, MAX_BYTES),
    "max_seconds": (DEFAULT_SECONDS, 1, MAX_SECONDS),
}
"""Numbers of a start: default, lowest, highest."""
_VARY = "vary_draft_length"
"""Whether a start asks for other draft lengths than the chosen ones in some steps."""
_NO_FILE = (
    "this engine has no file for recordings; set recording_file in --additional-config "
    "'{\"paceline\": {…}}'"
)


class Recorder:
    """The recording of one engine. `command` and `close` may be called from any thread; the other
    methods belong to the scheduler's."""

    def __init__(
        self,
        file: Path | None,
        header: Callable[[], Header],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`file`: where recordings are written; None refuses them. `header` is read at a start."""
        self._file = file
        self._header = header
        self._clock = clock
        self._lock = threading.Lock()
        self._session: RecordingSession | None = None
        self._other_lengths: OtherLengths | None = None
        self._output: BoundedFile | None = None
        self._started_s = self._ended_s = 0.0
        self._max_bytes, self._max_seconds = DEFAULT_BYTES, DEFAULT_SECONDS
        self._is_full = False
        self._reason: EndReason | None = None
        self._error: str | None = None
        self._num_requests = self._num_steps = 0

    @property
    def is_recording(self) -> bool:
        """Whether a recording is under way. Cheap, and without the lock."""
        return self._session is not None

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out `action` and return the status; ValueError for a command that is refused."""
        action = command.get("action")
        if action not in ACTIONS:
            raise ValueError(f"action is {action!r}; it must be one of {', '.join(ACTIONS)}")
        allowed = {"action", *((*_LIMITS, _VARY) if action == "start" else ())}
        unknown = sorted(set(command) - allowed)
        if unknown:
            raise ValueError(f"{action} takes no key {unknown[0]!r}")
        limits = {name: _limit(command, name) for name in _LIMITS}
        varies = command.get(_VARY, False)
        if type(varies) is not bool:
            raise ValueError(f"{_VARY} is {varies!r}; it must be true or false")
        with self._lock:
            was_recording = self._session is not None
            self._end_if_due()
            if action == "start":
                self._start(int(limits["max_bytes"]), limits["max_seconds"], varies=varies)
            elif action == "stop":
                if not was_recording:
                    raise ValueError("nothing is being recorded")
                if self._session is not None:
                    self._end("stopped")
            elif action == "delete":
                self._delete()
            output = self._output if self._session is None else None
        if output is not None:  # without the lock: the scheduler must not wait for the disk
            output.wait_closed(_DISK_TIMEOUT_S)
        exists = self._file is not None and self._file.exists()
        with self._lock:
            return self._status(exists)

    def other_length(self, latest: int) -> int | None:
        """Return the draft length that the recording wants in the next step, whose forerunner had
        `latest`; None to leave it to the policy."""
        with self._lock:
            lengths = self._other_lengths
            return None if lengths is None else lengths.next(latest)

    def request_added(self, request: Any, cap: int | None) -> None:
        """Note a request that has arrived."""
        with self._lock:
            self._end_if_due()
            if self._session is not None:
                self._session.request_added(request, cap, self._now_s())

    def step_answered(
        self,
        sample: Any,
        scheduled: Iterable[str],
        requests: Mapping[str, Any],
        cap_of: Callable[[str], int | None],
    ) -> None:
        """Add the verdicts and the answers of a step; see `RecordingSession.step_answered`."""
        with self._lock:
            if self._session is not None:
                self._session.step_answered(sample, scheduled, requests, cap_of, self._now_s())

    def step_finished(self, sample: Any, requests: Mapping[str, Any]) -> None:
        """Add the time of a step; see `RecordingSession.step_finished`."""
        with self._lock:
            if self._session is not None:
                self._session.step_finished(sample, requests, self._now_s())
                self._end_if_due()

    def fail(self, error: Exception) -> None:
        """End the recording after an error in it; serving continues."""
        with self._lock:
            if self._session is not None:
                self._error = f"{type(error).__name__}: {error}"
                self._close("failed")

    def close(self) -> None:
        """End the recording because the engine ends. Idempotent."""
        with self._lock:
            self._end_if_due()
            if self._session is not None:
                self._end("engine ended")
            output = self._output
        if output is not None:
            output.wait_closed(_DISK_TIMEOUT_S)

    def _start(self, max_bytes: int, max_seconds: float, *, varies: bool) -> None:
        if self._session is not None:
            raise ValueError("a recording is under way; stop it first")
        if self._file is None:
            raise ValueError(_NO_FILE)
        try:
            output = BoundedFile(self._file, max_bytes, _END_BYTES)
        except FileExistsError:
            raise ValueError(
                f"there is a recording in {self._file}; move it away, or delete it"
            ) from None
        except OSError as error:
            raise ValueError(f"{self._file} cannot be written: {error.strerror}") from None
        self._output, self._started_s = output, self._clock()
        self._max_bytes, self._max_seconds = max_bytes, max_seconds
        self._reason = self._error = None
        self._is_full = False
        header = self._header()
        self._session = RecordingSession(header, self._write)
        if varies:
            self._other_lengths = OtherLengths(header.max_draft_length, header.allowed_lengths)
        logger.info("Recording: to %s, at most %d bytes", self._file, max_bytes)

    def _write(self, line: Line) -> None:
        assert self._output is not None
        if not self._is_full and not self._output.put(encode(line)):
            self._is_full = True

    def _end_if_due(self) -> None:
        if self._session is None or self._output is None:
            return
        if self._output.error is not None:
            self._error = self._output.error
            self._close("failed")
        elif self._is_full:
            self._close("size")
        elif self._clock() - self._started_s >= self._max_seconds:
            self._end("time")

    def _end(self, reason: EndReason) -> None:
        """Write what is under way, then the end."""
        assert self._session is not None
        self._session.finish(self._now_s())
        self._close("size" if self._is_full else reason)

    def _close(self, reason: EndReason) -> None:
        assert self._session is not None
        assert self._output is not None
        self._ended_s = self._started_s + self._now_s()
        self._num_requests, self._num_steps = self._session.num_requests, self._session.num_steps
        self._session = self._other_lengths = None
        self._output.close(encode(End(at_s=round(self._now_s(), 6), reason=reason)))
        self._reason = reason
        logger.info("Recording: ended (%s)", self._error or reason)

    def _delete(self) -> None:
        if self._session is not None:
            raise ValueError("a recording is under way; stop it first")
        if self._file is None:
            raise ValueError(_NO_FILE)
        try:
            self._file.unlink()
        except FileNotFoundError:
            raise ValueError(f"there is no recording in {self._file}") from None
        except OSError as error:
            raise ValueError(f"{self._file} cannot be deleted: {error.strerror}") from None
        self._output = self._reason = self._error = None

    def _now_s(self) -> float:
        """Since the start, at most the time limit: an idle engine notices the limit late."""
        return min(max(self._clock() - self._started_s, 0.0), self._max_seconds)

    def _status(self, exists: bool) -> dict[str, Any]:
        session = self._session
        is_known = self._output is not None
        seconds = self._now_s() if session is not None else self._ended_s - self._started_s
        failure = self._error or (self._output.error if self._output is not None else None)
        return {
            "recording": session is not None,
            "file": None if self._file is None else str(self._file),
            "exists": exists,
            "bytes": self._output.num_bytes if self._output is not None else 0,
            "max_bytes": self._max_bytes,
            "seconds": round(seconds, 3) if is_known else 0.0,
            "max_seconds": self._max_seconds,
            "num_requests": session.num_requests if session else self._num_requests,
            "num_steps": session.num_steps if session else self._num_steps,
            "varies_draft_length": self._other_lengths is not None,
            "ended": self._reason,
            "error": failure,
        }


def _limit(command: Mapping[str, Any], name: str) -> float:
    default, lowest, highest = _LIMITS[name]
    value = command.get(name, default)
    if type(value) not in (int, float) or not lowest <= value <= highest:
        raise ValueError(f"{name} is {value!r}; it must be a number from {lowest} to {highest:g}")
    return float(value)
