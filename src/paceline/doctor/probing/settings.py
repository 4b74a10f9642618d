"""What a probe sends, and to whom."""

from __future__ import annotations

from dataclasses import dataclass

from yarl import URL


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The bounds of the load."""

    data_url: URL
    """The port that takes requests."""
    api_key: str | None
    seconds: float
    """Of the load, and once more of the comparison with and without drafts."""
    concurrency: int
    """Most requests in flight."""
    max_tokens: int = 64
    """Of an answer."""
    model: str | None = None
    """The model to ask; None for the first that the server lists."""
