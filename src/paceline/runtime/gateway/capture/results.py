"""`CaptureResult`: what became of a request that was drawn for the capture."""

from __future__ import annotations

from enum import StrEnum


class CaptureResult(StrEnum):
    """One for each request that was drawn; also the label of the metric."""

    WRITTEN = "written"
    NOT_TEXT = "not_text"
    """Its prompt is not only text: token ids, tools, several prompts, a role of its own."""
    TOO_LARGE = "too_large"
    QUEUE_FULL = "queue_full"
    """Requests came faster than they could be redacted and written."""
    REDACTED = "redacted"
    """The redaction hook returned None."""
    REDACTION_FAILED = "redaction_failed"
    WRITE_FAILED = "write_failed"


class CaptureUnusable(Exception):
    """The capture cannot work as it is set; the message says why."""
