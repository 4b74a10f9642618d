"""Count drafted and accepted tokens, and keep recent acceptance and goodput for display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from paceline.governor.values import StepSample

_RECENT_KEEP = 0.98
"""Weight kept per step in the recent accepted fraction and the recent goodput: a memory of about 50
steps, a few seconds of decoding. Chosen empirically; for display only, no policy reads it."""


class DraftCounters:
    """The draft counters of one engine. Not thread-safe: the owner's lock guards it."""

    def __init__(self, max_draft_length: int) -> None:
        self._num_drafts_total = 0
        self._drafted_total = 0
        self._accepted_total = 0
        self._drafted_per_position = [0] * max_draft_length
        self._accepted_per_position = [0] * max_draft_length
        self._recent_drafted = 0.0
        self._recent_accepted = 0.0
        self._recent_tokens = 0.0
        self._recent_s = 0.0

    def count(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count a step's verified drafts, one entry per request, as vLLM's own metrics do."""
        self._num_drafts_total += len(drafted)
        self._drafted_total += sum(drafted)
        self._accepted_total += sum(accepted)
        _add(self._drafted_per_position, drafted)
        _add(self._accepted_per_position, accepted)

    def observe(self, sample: StepSample) -> None:
        """Add a finished step to the recent rates; goodput counts only clean decode steps."""
        accepted = sum(sample.accepted)
        self._recent_drafted = _RECENT_KEEP * self._recent_drafted + sum(sample.drafted)
        self._recent_accepted = _RECENT_KEEP * self._recent_accepted + accepted
        if sample.duration_s is not None and sample.is_clean and not sample.prefill_tokens:
            tokens = sample.num_requests + accepted
            self._recent_tokens = _RECENT_KEEP * self._recent_tokens + tokens
            self._recent_s = _RECENT_KEEP * self._recent_s + sample.duration_s

    def state(self) -> dict[str, Any]:
        """Return the counters under the keys of the control channel; None for unknown rates."""
        has_recent = self._recent_drafted >= 0.5
        return {
            "drafted_tokens_total": self._drafted_total,
            "accepted_tokens_total": self._accepted_total,
            "num_drafts_total": self._num_drafts_total,
            "accepted_fraction": (
                self._recent_accepted / self._recent_drafted if has_recent else None
            ),
            "drafted_per_position_total": list(self._drafted_per_position),
            "accepted_per_position_total": list(self._accepted_per_position),
            "goodput_tokens_per_s": (
                self._recent_tokens / self._recent_s if self._recent_s > 0 else None
            ),
        }


def _add(per_position: list[int], lengths: Sequence[int]) -> None:
    for length, count in Counter(lengths).items():
        for position in range(min(length, len(per_position))):
            per_position[position] += count
