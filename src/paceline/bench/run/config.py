"""The settings of one benchmark run, and the address of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from paceline.workloads import load_workload


class BenchError(Exception):
    """The run cannot take place. The message says why."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The settings of one run, as the report shows them under `config`."""

    url: str
    admin_url: str | None = None
    model: str | None = None
    """None: the first model that the server lists."""
    workload: str = "mixed"
    prompts_file: str | None = None
    """Replaces the workload's prompts."""
    temperature: float | None = None
    """None: the workload's own temperature."""
    top_p: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    num_requests: int | None = None
    duration_s: float | None = None
    concurrency: int | None = 1
    """Closed loop; None for open loop."""
    rate_per_s: float | None = None
    """Open loop; None for closed loop."""
    num_warmup: int = 0
    timeout_s: float = 600.0
    max_dispatch_delay_ms: float = 25.0
    """Chosen empirically: a quarter of the 100 ms at which people notice a delay."""

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ValueError("give either a concurrency (closed loop) or a rate (open loop)")
        if self.num_requests is None and self.duration_s is None:
            raise ValueError("give a number of requests or a duration, so that the run ends")

    @property
    def effective_temperature(self) -> float:
        """The temperature of the requests; a user's own prompts are greedy by default."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.prompts_file else load_workload(self.workload).temperature


def parse_server_url(url: str) -> URL:
    """The server's address, given with or without the /v1 of the OpenAI API."""
    try:
        address = URL(url)
    except ValueError as error:
        raise BenchError(f"URL is {url!r}: {error}") from error
    if address.scheme not in ("http", "https") or not address.host:
        raise BenchError(f"URL is {url!r}; it must look like http://127.0.0.1:8000")
    path = address.path.rstrip("/").removesuffix("/v1")
    if path:
        raise BenchError(f"URL is {url!r}; its path must be empty or /v1")
    return address.origin()
