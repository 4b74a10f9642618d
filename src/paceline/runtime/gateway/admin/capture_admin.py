"""Show the captured prompts of /admin/capture, and delete them.

Neither shows any of their text. The processes that write them notice a deletion by themselves.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from paceline.runtime.gateway.capture.segments import CaptureFolder
from paceline.runtime.gateway.http.errors import Problem, Refusal, invalid
from paceline.runtime.gateway.settings import CaptureSettings

_RETRY_AFTER_S = 5


async def describe_capture(settings: CaptureSettings) -> dict[str, object]:
    """What is kept and by which rules. Raises a `Refusal` with a 503 if it cannot be read."""
    if settings.folder is None:
        return {"capturing": False}
    folder = CaptureFolder(settings.folder)
    try:
        segments = await asyncio.to_thread(folder.segments)
    except OSError as error:
        raise _failed(settings.folder, error) from None
    oldest_s = min((segment.begun_s for segment in segments), default=None)
    return {
        "capturing": settings.share > 0,
        "folder": str(settings.folder),
        "share": settings.share,
        "answers": settings.answers,
        "redact": settings.redact,
        "num_files": len(segments),
        "bytes": sum(segment.num_bytes for segment in segments),
        "max_bytes": settings.max_bytes,
        "oldest_s": None if oldest_s is None else round(max(time.time() - oldest_s, 0.0), 3),
        "max_age_s": settings.max_age_s,
    }


async def delete_capture(settings: CaptureSettings) -> dict[str, object]:
    """Delete all captured prompts. Raises a `Refusal` with a 400 if no folder is set, and with a
    503 if they cannot be deleted."""
    if settings.folder is None:
        raise invalid(
            "capture.folder is not set, so this server knows of no prompts. Set it, with "
            "capture.share: 0 to keep no more, and restart the server.",
            code="capture_refused",
        )
    folder = CaptureFolder(settings.folder)
    try:
        deleted = await asyncio.to_thread(lambda: folder.delete(folder.segments()))
    except OSError as error:
        raise _failed(settings.folder, error) from None
    return {
        "num_files_deleted": len(deleted),
        "bytes_deleted": sum(segment.num_bytes for segment in deleted),
    }


def _failed(folder: Path, error: OSError) -> Refusal:
    message = f"capture.folder {folder} failed: {error.strerror}."
    return Refusal(Problem(503, message, "capture_failed", retry_after_s=_RETRY_AFTER_S))
