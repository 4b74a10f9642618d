"""The record of one phase: tokens by time bucket, gaps between chunks, outcomes of its requests.

`load` fills it, and `render` gives the entry of the results file. It reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(slots=True)
class PhaseLog:
    """Collects the figures of one phase. Times are seconds from its beginning."""

    name: str
    seconds: float
    bucket_s: float
    bucket_tokens: list[int] = field(init=False)
    num_started: int = 0
    num_finished: int = 0
    num_cancelled: int = 0
    """Requests in flight when the phase ended."""
    errors: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    _gaps_s: list[float] = field(default_factory=list)
    _first_token_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket_tokens = [0] * max(round(self.seconds / self.bucket_s), 1)

    def count_tokens(self, at_s: float, num_tokens: int) -> None:
        """Count tokens that arrived at `at_s`; after the end of the phase they are ignored."""
        index = int(at_s / self.bucket_s)
        if 0 <= at_s < self.seconds and index < len(self.bucket_tokens):
            self.bucket_tokens[index] += num_tokens

    def add_gap(self, gap_s: float) -> None:
        """Record the time between consecutive chunks of one answer."""
        self._gaps_s.append(gap_s)

    def add_first_token(self, wait_s: float) -> None:
        """Record the time from sending a request to its first chunk."""
        self._first_token_s.append(wait_s)

    @property
    def tokens(self) -> int:
        return sum(self.bucket_tokens)

    def render(self) -> dict[str, Any]:
        """The entry of the results file; percentiles without samples are None."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "tokens": self.tokens,
            "tokens_per_s": round(self.tokens / self.seconds, 2),
            "bucket_tokens": self.bucket_tokens,
            "inter_chunk_p50_ms": _percentile_ms(self._gaps_s, 50),
            "inter_chunk_p99_ms": _percentile_ms(self._gaps_s, 99),
            "num_gaps": len(self._gaps_s),
            "first_token_p50_ms": _percentile_ms(self._first_token_s, 50),
            "num_started": self.num_started,
            "num_finished": self.num_finished,
            "num_cancelled": self.num_cancelled,
            "num_errors": len(self.errors),
            "error_samples": self.errors[:3],
            "prompt_tokens": self.prompt_tokens,
        }


def _percentile_ms(samples_s: list[float], percent: float) -> float | None:
    return round(1e3 * float(np.percentile(samples_s, percent)), 3) if samples_s else None
