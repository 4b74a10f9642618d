"""`CaptureSettings`: which prompts are kept, where, and for how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

MIN_BYTES = 16 * 1024 * 1024
MIN_AGE_S = 60.0
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """The capture of prompts; off without a folder."""

    folder: Path | None = None
    """Folder of the captured prompts; None keeps none."""
    share: float = 0.05
    """Share of the requests that are kept, drawn at random; 0 keeps no more, while the folder stays
    within its bounds."""
    answers: bool = False
    """Whether the answers are kept too."""
    max_bytes: int = 256 * 1024 * 1024
    """Most bytes on disk; the oldest are deleted."""
    max_age_s: float = 7 * 86_400.0
    """Age at which prompts are deleted."""
    redact: str | None = None
    """`module:function`, which gets every text and returns what is kept of it, or None to keep
    nothing of the request."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(
                f"capture.share is {self.share}; it must be at least 0, which keeps no more "
                "prompts, and at most 1"
            )
        if self.max_bytes < MIN_BYTES:
            raise ValueError(
                f"capture.max_bytes is {self.max_bytes}; it must be at least {MIN_BYTES}"
            )
        if not self.max_age_s >= MIN_AGE_S:
            raise ValueError(
                f"capture.max_age_s is {self.max_age_s}; it must be at least {MIN_AGE_S:g} seconds"
            )
        if self.redact is not None and not _FUNCTION.fullmatch(self.redact):
            raise ValueError(
                f"capture.redact is {self.redact!r}; it must have the form module:function, such "
                "as ourpackage.privacy:redact"
            )
