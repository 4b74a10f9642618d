"""What a probe sends, and to whom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from yarl import URL

from paceline.foundation.workloads import load_workload

WORKLOAD = "hard"
"""Text that drafts fit badly: it shows losses that predictable text hides."""


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
    workload: str = WORKLOAD
    prompts_file: Path | None = None
    """A user's own prompts, instead of the workload."""
    temperature: float | None = None
    """None: the workload's own; own prompts are greedy."""

    @property
    def effective_temperature(self) -> float:
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.prompts_file is not None else load_workload(self.workload).temperature

    @property
    def workload_label(self) -> str:
        """Where the prompts come from, for people."""
        return self.workload if self.prompts_file is None else self.prompts_file.name
