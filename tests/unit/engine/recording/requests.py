"""Requests and steps as the scheduler sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paceline.runtime.governor.values import StepSample


class Request:
    """The fields of vLLM's Request that are read."""

    def __init__(self, name: str, **sampling: Any) -> None:
        self.request_id = name
        self.num_prompt_tokens = 100
        self.num_output_tokens = 0
        self.prefill_stats: Any = SimpleNamespace(num_cached_tokens=32)
        fields = {"temperature": 0.0, "extra_args": None, "structured_outputs": None}
        self.sampling_params = SimpleNamespace(**(fields | sampling))


def sample(
    *judged: str, drafted: tuple[int, ...] = (), accepted: tuple[int, ...] = (), **changes: Any
) -> StepSample:
    """A clean step of 20 ms that drafts 2 tokens."""
    fields: dict[str, Any] = {
        "num_requests": max(len(judged), 1),
        "requested_draft_length": 2,
        "drafted": drafted,
        "accepted": accepted,
        "verified_draft_tokens": sum(drafted),
        "draft_length": 2,
        "prefill_tokens": 0,
        "context_tokens": 500,
        "duration_s": 0.02,
        "is_clean": True,
        "judged": judged,
    }
    return StepSample(**(fields | changes))
