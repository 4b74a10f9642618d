"""How many requests does the gateway let in, and how long may the others wait?

A value. What is decided with it is in `admission` and `admission_forecast`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Times in seconds."""

    max_in_flight: int = 256
    """Most requests that a replica is given at a time, where the replica does not say: vLLM's own
    default of sequences in a batch on most GPUs (1,024 on H100 and larger, 128 on a CPU). With
    fewer than the engine's, it idles under load; with more, requests wait inside the engine, where
    none can be refused early."""
    max_queue: int = 1024
    """Most requests that wait at a time: four replicas' worth. Waiting ones hold their body."""
    max_queue_wait_s: float = 10.0
    """Longest wait. Who is likely to wait longer is refused at once. Once there has been a queue
    for so long, a quarter of what a request usually takes is the limit, until it has cleared."""
    max_deadline_s: float = 3600.0
    """Most time for a request, also where its client names none or a longer one."""

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight is {self.max_in_flight}; it must be at least 1")
        if self.max_queue < 0:
            raise ValueError(f"max_queue is {self.max_queue}; 0 lets nobody wait")
        for name in ("max_queue_wait_s", "max_deadline_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0 seconds")
