"""The settings of one run of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paceline.foundation.results.adaptation import AdaptationRule
from paceline.foundation.shifting_trace import ShiftingTrace


class AcceptanceMode(StrEnum):
    """What decides whether a draft token is accepted."""

    TEXT = "text"
    """The models, on real prompts."""
    SCRIPTED = "scripted"
    """The rates that the trace scripts, sent with each request."""
    SYNTHETIC = "synthetic"
    """The rates that the trace scripts, as vLLM's synthetic acceptance: one server per rates."""


@dataclass(frozen=True, slots=True)
class TraceConfig:
    """The settings of one run; the report shows all but the trace under `config`."""

    url: str | None
    """None: servers are started with `serve_command`."""
    trace: ShiftingTrace
    """As published, not scaled."""
    acceptance: AcceptanceMode = AcceptanceMode.TEXT
    load_scale: float = 1.0
    time_scale: float = 1.0
    seed: int = 0
    serve_command: str | None = None
    """Starts the server, with `{port}` and `{speculative_config}` in it."""
    draft_length: int = 0
    """Of the servers that are started; 0 starts them without speculation."""
    speculative_config: Mapping[str, Any] = field(default_factory=dict)
    """Of the servers that are started: what names their drafter."""
    start_timeout_s: float = 600.0
    label: str | None = None
    """The name of the arm in a report that compares."""
    model: str | None = None
    """None: the first that the server lists."""
    admin_url: str | None = None
    timeout_s: float = 600.0
    adaptation: AdaptationRule = field(default_factory=AdaptationRule)
    max_dispatch_delay_ms: float = 25.0
    """As in `paceline bench run`."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.serve_command is None):
            raise ValueError("give either a URL or a command that starts the server")
        if (self.serve_command is not None) != (self.acceptance is AcceptanceMode.SYNTHETIC):
            raise ValueError(
                "synthetic acceptance is fixed when vLLM starts, so it needs a command that starts "
                "the server for each phase's rates, and only it takes one"
            )

    @property
    def scaled(self) -> ShiftingTrace:
        """The trace as it is run."""
        return self.trace.scaled(load=self.load_scale, time=self.time_scale)
