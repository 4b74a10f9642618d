"""`AdmissionSettings`: how many requests are admitted, and how long others may wait for a slot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Times in seconds."""

    max_in_flight: int = 256
    """Most sequences in flight at a replica that has no limit of its own: requests times prompts
    times `n`. It equals vLLM's default
    batch size on most GPUs (1,024 on H100 and larger, 128 on a CPU). A smaller value leaves the
    engine idle under load; with a larger one requests wait inside the engine, where they cannot be
    refused early."""
    max_tokens_in_flight: int | None = None
    """Most tokens in flight at a replica that has no limit of its own: of the prompts, and expected
    of the answers. None for no limit: an engine whose KV cache is full preempts sequences."""
    max_queue: int = 1024
    """Most requests that wait at a time: the slots of four replicas. A waiting request holds its
    body in memory."""
    max_queue_wait_s: float = 10.0
    """Longest wait. A request that would probably wait longer is refused at once. When the queue
    has not been empty for this long, the limit is a quarter of the usual time of a request, until
    the queue has cleared."""
    max_deadline_s: float = 3600.0
    """Time limit for a whole request; the client may set a shorter one."""

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight is {self.max_in_flight}; it must be at least 1")
        if self.max_tokens_in_flight is not None and self.max_tokens_in_flight < 1:
            raise ValueError(
                f"max_tokens_in_flight is {self.max_tokens_in_flight}; it must be at least 1, or "
                "left out for no limit"
            )
        if self.max_queue < 0:
            raise ValueError(f"max_queue is {self.max_queue}; it must be at least 0")
        for name in ("max_queue_wait_s", "max_deadline_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0 seconds")
