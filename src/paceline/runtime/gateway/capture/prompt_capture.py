"""`PromptCapture`: draw requests, and have a thread redact and write them.

The data path only draws a number and puts a reference into a bounded queue; when the queue is full,
the request is counted and not kept. The thread takes the interpreter's lock while it redacts, so
long texts are left out and a hook should be fast.
"""

from __future__ import annotations

import importlib
import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from paceline.foundation.files.writable import check_writable_folder
from paceline.runtime.gateway.capture.records import (
    Redact,
    encode_line,
    read_answer,
    read_capture,
    redacted,
)
from paceline.runtime.gateway.capture.results import CaptureResult, CaptureUnusable
from paceline.runtime.gateway.capture.segments import CaptureBounds, CaptureFolder, SegmentWriter
from paceline.runtime.gateway.keys.ring import Tenant
from paceline.runtime.gateway.requests.validation import CheckedRequest
from paceline.runtime.gateway.settings.capture import CaptureSettings
from paceline.runtime.gateway.time_limits import CAPTURE_CLOSE_S, CAPTURE_TIDY_PERIOD_S

logger = logging.getLogger(__name__)

MAX_WAITING = 64
"""Requests that wait for the thread."""
MAX_TEXT_BYTES = 256 * 1024
"""Longest body of a request, and longest answer, that is kept."""


class _Offered(NamedTuple):
    """A request that was drawn, with its answer in one of two forms."""

    request: CheckedRequest
    at_s: float
    text: str | None
    body: bytes


class PromptCapture:
    """The capture of one process. `offer` may be called from one thread, `close` from another."""

    def __init__(
        self,
        settings: CaptureSettings,
        count: Callable[[CaptureResult], None],
        *,
        num_processes: int = 1,
        draw: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread. `count` is called from both threads. `num_processes` share the folder.

        Raises `CaptureUnusable` if the folder or the hook cannot be used, or no folder is set.
        """
        if settings.folder is None:
            raise CaptureUnusable("capture.folder is not set")
        self._settings = settings
        self._count = count
        self._draw = draw
        self._clock = clock
        self._monotonic = monotonic
        self._redact = check_capture(settings)
        folder = CaptureFolder(settings.folder)
        bounds = CaptureBounds(settings.max_bytes, settings.max_age_s, num_processes)
        self._max_line_bytes = bounds.segment_bytes
        self._writer = SegmentWriter(folder, bounds)
        try:
            folder.create()
            folder.keep_within(bounds, clock())
        except OSError as error:
            raise CaptureUnusable(
                f"capture.folder {settings.folder} cannot be used: {error.strerror}"
            ) from None
        self._has_failed = False
        self._queue: queue.Queue[_Offered | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="paceline-capture", daemon=True)
        self._thread.start()

    def draws(self, request: CheckedRequest, tenant: Tenant | None) -> bool:
        """Whether to offer this request.

        Never one with a key that opted out, and none without a generated answer.
        """
        if not request.route.generates or (tenant is not None and not tenant.may_be_captured):
            return False
        return self._draw() < self._settings.share

    def offer(self, request: CheckedRequest, *, text: str | None = None, body: bytes = b"") -> None:
        """Keep this request. Does not block.

        Its answer is `text`, or in the JSON document `body`; either may be missing.
        """
        if not self._settings.answers:
            text, body = None, b""
        if max(len(request.body), len(body), len(text or "")) > MAX_TEXT_BYTES:
            self._count(CaptureResult.TOO_LARGE)
            return
        try:
            self._queue.put_nowait(_Offered(request, self._clock(), text, body))
        except queue.Full:
            self._count(CaptureResult.QUEUE_FULL)

    def close(self) -> None:
        """Write what waits, for a moment at most, and end. Blocks."""
        try:
            self._queue.put(None, timeout=CAPTURE_CLOSE_S)
        except queue.Full:
            logger.warning("capture: the last prompts are not kept; redaction is too slow")
            return
        self._thread.join(CAPTURE_CLOSE_S)

    def _run(self) -> None:
        """Keep what is offered; between two requests, tidy the folder where that is due."""
        tidy_at_s = self._monotonic() + CAPTURE_TIDY_PERIOD_S
        try:
            while True:
                wait_s = tidy_at_s - self._monotonic()
                if wait_s <= 0:
                    self._tidy()
                    tidy_at_s = self._monotonic() + CAPTURE_TIDY_PERIOD_S
                    continue
                try:
                    offered = self._queue.get(timeout=wait_s)
                except queue.Empty:
                    continue
                if offered is None:
                    return
                self._count(self._keep(offered))
        finally:
            self._writer.close()

    def _keep(self, offered: _Offered) -> CaptureResult:
        """Redact and write one request. Never raises, so that the thread lives."""
        try:
            captured = read_capture(offered.request, _utc(offered.at_s), _answer_of(offered))
            if captured is None:
                return CaptureResult.NOT_TEXT
            if self._redact is not None:
                captured = redacted(captured, self._redact)
            # A prompt without text would make the file useless: no command could read it.
            if captured is None or (self._redact is not None and captured.prompt == ""):
                return CaptureResult.REDACTED
            line = encode_line(captured)
        except BaseException as error:  # noqa: BLE001 - a hook may raise CancelledError, too
            # The error's text may quote a prompt.
            logger.error("capture: redaction failed: %s", type(error).__name__)
            return CaptureResult.REDACTION_FAILED
        return self._write(line)

    def _write(self, line: bytes) -> CaptureResult:
        if len(line) > self._max_line_bytes:
            return CaptureResult.TOO_LARGE
        try:
            self._writer.write(line, self._clock())
        except OSError as error:
            self._note_failure(error)
            return CaptureResult.WRITE_FAILED
        self._has_failed = False
        return CaptureResult.WRITTEN

    def _tidy(self) -> None:
        try:
            self._writer.tidy(self._clock())
        except OSError as error:
            self._note_failure(error)

    def _note_failure(self, error: OSError) -> None:
        """Log the first of several failures in a row; begin another segment with the next line."""
        self._writer.close()
        if not self._has_failed:
            logger.error("capture: %s cannot be written: %s", self._settings.folder, error.strerror)
        self._has_failed = True


def check_capture(settings: CaptureSettings) -> Redact | None:
    """The hook, once it is known that the folder takes files. Creates nothing.

    Raises `CaptureUnusable`.
    """
    redact = None if settings.redact is None else load_redaction(settings.redact)
    folder = settings.folder
    if folder is not None:
        try:
            check_writable_folder(folder)
        except OSError as error:
            raise CaptureUnusable(
                f"capture.folder {folder} cannot be used: {error.strerror}; set it to a folder in "
                "which files can be created"
            ) from None
    return redact


def load_redaction(name: str) -> Redact:
    """The function called `module:function`. Raises `CaptureUnusable`."""
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise CaptureUnusable(
            f"capture.redact is {name}, which cannot be imported: {error}"
        ) from error
    if not callable(found):
        raise CaptureUnusable(f"capture.redact is {name}, which is not a function")
    redact: Redact = found
    return redact


def _answer_of(offered: _Offered) -> str | None:
    if offered.text is None and offered.body:
        return read_answer(offered.body)
    return offered.text


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
