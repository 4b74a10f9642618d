"""The settings of one comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.foundation.load.config import BenchError, parse_server_url
from paceline.foundation.workloads import load_workload
from paceline.workbench.bench.compare.contrasts import Arm, Figure

ADMIN_PORT = 8001
"""Of `paceline serve` by default."""


@dataclass(frozen=True, slots=True)
class CompareConfig:
    """The settings as the report shows them under `config`."""

    a: str
    """URL of a server, or the path of a paceline.yaml that the comparison serves itself."""
    b: str | None
    """None: the same server as A, with another setting."""
    settings: tuple[str, str] | None = None
    """Of A and of B, as `arm_settings` reads them; None where A and B are two servers."""
    admin_url: str | None = None
    """With `settings`; None: `ADMIN_PORT` of the host of A."""
    model: str | None = None
    """None: the first that each server lists."""
    workload: str | None = None
    """None: one that suits the model of A, if no file has the prompts."""
    prompts_file: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    concurrency: int | None = 1
    """Closed loop; None for open loop."""
    rate_per_s: float | None = None
    block_s: float = 0.5
    """Aim for the duration of a block. The noise of a machine changes over seconds to minutes, and
    what changes more slowly than a round cancels, so shorter blocks find smaller differences:
    benchmarks/compare_power.py compares 0.5 to 8 s."""
    figure: Figure | None = None
    """None: output tokens/s in a closed loop, time per output token in an open one."""
    margin: float = 0.03
    confidence: float = 0.99
    max_minutes: float = 10.0
    timeout_s: float = 600.0
    max_dispatch_delay_ms: float = 25.0
    start_timeout_s: float = 900.0
    """For each configuration; the largest models load within it from a local disk."""

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ValueError("give either a concurrency (closed loop) or a rate (open loop)")
        if (self.b is None) == (self.settings is None):
            raise ValueError("give either two servers or two settings of one")

    @property
    def needs_workload(self) -> bool:
        """Whether the prompts are still to be chosen."""
        return self.workload is None and self.prompts_file is None

    @property
    def primary(self) -> Figure:
        """The figure that decides. In an open loop the arrivals fix the output tokens/s."""
        if self.figure is not None:
            return self.figure
        return Figure.OUTPUT_TOKENS_PER_S if self.rate_per_s is None else Figure.TPOT_MS

    @property
    def settings_by_arm(self) -> dict[Arm, str]:
        """Empty where A and B are two servers."""
        return {} if self.settings is None else dict(zip(Arm, self.settings, strict=True))

    @property
    def admin_address(self) -> str:
        """Of the admin port where A is a server's URL."""
        return self.admin_url or str(parse_server_url(self.a).with_port(ADMIN_PORT))

    @property
    def effective_temperature(self) -> float:
        """The temperature of the requests; a user's own prompts are greedy by default."""
        if self.temperature is not None:
            return self.temperature
        if self.prompts_file or self.workload is None:
            return 0.0
        return load_workload(self.workload).temperature


def is_url(subject: str) -> bool:
    """Whether A or B is a URL, as opposed to a configuration file."""
    return subject.startswith(("http://", "https://"))


def check_subject(name: str, subject: str) -> None:
    """Raise BenchError unless the subject is a server's URL or an existing file."""
    if is_url(subject):
        parse_server_url(subject)
    elif not Path(subject).is_file():
        raise BenchError(
            f"{name} is {subject!r}; it must be a server's URL such as http://127.0.0.1:8000, or "
            "an existing paceline.yaml"
        )
