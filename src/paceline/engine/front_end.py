"""Report on vLLM's metrics page whether this server keeps to its requests' caps on drafts.

vLLM creates the class through the entry point `vllm.stat_logger_plugins`, in the process of the API
server. A gateway on another machine reads the gauge: it may send requests with a cap only to such a
server.

Where such a class is installed, vLLM gathers statistics under --disable-log-stats too, without
logging them.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, Gauge
from vllm.v1.metrics.loggers import StatLoggerBase

from paceline.engine.compat.checks import check_hooks, unfit_for

NAME = "paceline_engine_honours_draft_caps"
_SCHEDULER = "AdaptiveScheduler"


class DraftCapReport(StatLoggerBase):
    """A gauge: 1 where Paceline's scheduler governs, or nothing drafts; else 0."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        """Set the gauge; nothing is recorded later."""
        if engine_index == 0:
            _gauge().set(float(honours_draft_caps(vllm_config)))

    def record(self, *_: Any, **__: Any) -> None:
        """Nothing: the configuration does not change."""

    def log_engine_initialized(self) -> None:
        """Nothing."""


def honours_draft_caps(vllm_config: Any) -> bool:
    """Whether the scheduler of this configuration enforces caps. Never raises."""
    if vllm_config.speculative_config is None:
        return True
    scheduler = vllm_config.scheduler_config.scheduler_cls
    name = scheduler if isinstance(scheduler, str) else getattr(scheduler, "__name__", "")
    return name.endswith(_SCHEDULER) and not unfit_for("governor", check_hooks("governor"))


def _gauge() -> Gauge:
    """The gauge; a second engine in one process finds that of the first."""
    known = REGISTRY._names_to_collectors.get(NAME)
    if isinstance(known, Gauge):
        return known
    return Gauge(
        NAME,
        "Whether this server keeps to a request's limit on draft tokens.",
        multiprocess_mode="mostrecent",
    )
