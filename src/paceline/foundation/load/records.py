"""The record of one request: its outcome, when its chunks arrived, and the derived latencies.

Times are seconds on one monotonic clock, counted from the start of the warm-up or of the repeat.
The derived times follow the definitions in docs/bench.md.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import StrEnum


class RequestOutcome(StrEnum):
    """How a request ended. Every request has exactly one outcome."""

    OK = "ok"
    HTTP_ERROR = "http_error"
    """The server answered with a status other than 200."""
    STREAM_ERROR = "stream_error"
    """The stream carried an error, or something that is not a completion chunk."""
    TRUNCATED = "truncated"
    """The stream ended without a finish reason and without [DONE]."""
    CONNECTION = "connection"
    """The connection could not be made, or it broke."""
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """What was drafted for one answer."""

    drafted_tokens: int
    accepted_tokens: int
    num_drafts: int | None = None
    """None when the server does not send it."""

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted tokens; None when nothing was drafted."""
        return self.accepted_tokens / self.drafted_tokens if self.drafted_tokens else None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One finished request, whatever its outcome."""

    index: int
    task: str
    scheduled_s: float
    """When the request was due. Latencies count from here, to avoid coordinated omission."""
    sent_s: float
    chunk_times_s: tuple[float, ...]
    """Arrival of each chunk with non-empty content, in order, (num_chunks,)."""
    finished_s: float
    """Arrival of the chunk with the finish reason; for an error, when the client noticed it."""
    outcome: RequestOutcome
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """From the server's usage; None when the server sent no usage."""
    error: str | None = None
    turn: int = 0
    """Of the session `index`; 0 for its first request."""
    phase: int = 0
    """Number of the phase in which the request was due."""
    repeat: int = 0
    request_id: str | None = None
    """The header x-request-id that was sent."""
    slot_wait_s: float = 0.0
    """Time that the request waited because the load allows a bounded number in flight."""
    asked_input_tokens: int | None = None
    """For how many tokens the text was made; None for any other text."""
    asked_output_tokens: int | None = None
    """Exactly how many tokens the answer must have; None where it may end by itself."""
    drafts: DraftCounts | None = None
    """Of this answer; None when the server does not send it."""
    answer: str | None = None
    """The text, only until the next turn of a session is built; never written to a file."""

    def __post_init__(self) -> None:
        times = (self.scheduled_s, self.sent_s, *self.chunk_times_s)
        if any(later < earlier for earlier, later in itertools.pairwise(times)):
            raise ValueError(f"times of request {self.index} must not decrease: {times}")
        if self.finished_s < self.sent_s:
            raise ValueError(
                f"request {self.index} finished at {self.finished_s} s, before it was sent at "
                f"{self.sent_s} s"
            )
        if (self.error is None) != (self.outcome is RequestOutcome.OK):
            raise ValueError(
                f"request {self.index} has outcome {self.outcome} and error {self.error!r}; "
                "a failure needs a message and a success must have none"
            )

    @property
    def is_ok(self) -> bool:
        return self.outcome is RequestOutcome.OK

    @property
    def dispatch_delay_s(self) -> float:
        """How late the load generator sent the request, without the wait for a slot."""
        return max(0.0, self.sent_s - self.scheduled_s - self.slot_wait_s)

    @property
    def ttft_s(self) -> float | None:
        """Scheduled send to the first non-empty content; None for an empty answer."""
        return self.chunk_times_s[0] - self.scheduled_s if self.chunk_times_s else None

    @property
    def e2e_s(self) -> float:
        """Scheduled send to the chunk with the finish reason."""
        return self.finished_s - self.scheduled_s

    @property
    def tpot_s(self) -> float | None:
        """(E2E - TTFT) / (N - 1) for N output tokens; None below two tokens or without usage."""
        if self.ttft_s is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.e2e_s - self.ttft_s) / (self.output_tokens - 1)

    @property
    def chunk_gaps_s(self) -> tuple[float, ...]:
        """Time between consecutive content chunks, (num_chunks - 1,) or empty."""
        times = self.chunk_times_s
        return tuple(b - a for a, b in itertools.pairwise(times))
