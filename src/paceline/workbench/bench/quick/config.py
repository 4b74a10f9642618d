"""The settings of one quick measurement."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.workloads import load_workload


@dataclass(frozen=True, slots=True)
class QuickConfig:
    """The settings as the report shows them under `config`."""

    url: str
    admin_url: str | None = None
    model: str | None = None
    workload: str | None = None
    """None: one that suits the served model, if no file has the prompts."""
    prompts_file: str | None = None
    max_tokens: int = 64
    """Chosen empirically: answers of a second or two, so that a window holds several."""
    ttft_limit_s: float = 1.0
    max_concurrency: int = 256
    seconds: float = 60.0
    seed: int = 0

    @property
    def needs_workload(self) -> bool:
        """Whether the prompts are still to be chosen."""
        return self.workload is None and self.prompts_file is None

    @property
    def temperature(self) -> float:
        """The workload's own; a user's own prompts are greedy."""
        if self.prompts_file is not None or self.workload is None:
            return 0.0
        return load_workload(self.workload).temperature
