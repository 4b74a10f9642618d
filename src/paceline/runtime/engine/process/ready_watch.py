"""Watch an engine that is ready, until it is unhealthy or its restart is requested."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from paceline.runtime.engine.process.engine_probe import (
    EngineProbe,
    EngineProbeFailed,
    EngineProbeNotSent,
)

logger = logging.getLogger(__name__)

_HEALTH_PERIOD_S = 2.0
HEALTH_TIMEOUT_S = 10.0
_MAX_HEALTH_FAILURES = 3
"""Failures in a row, about 30 s: vLLM's front end hangs, or reports that its engine core has ended.
A busy engine does not fail: the front end answers /health from its event loop. For the same reason
an engine core that hangs without ending is not noticed here, but by the reader of its streams,
which calls `EngineSupervisor.restart`."""


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Why an engine that is ready is to be restarted."""

    reason: str
    is_planned: bool
    """It does not hang, so its restart is no failure."""


class RestartRequested(Exception):
    """The restart of the engine was requested while it was watched."""

    def __init__(self, request: RestartRequest) -> None:
        self.request = request


async def watch_ready_engine(probe: EngineProbe, request: asyncio.Future[RestartRequest]) -> None:
    """Never return; raise EngineProbeFailed when the engine is unhealthy, `RestartRequested` when
    `request` is set."""
    health = asyncio.create_task(_watch_health(probe))
    try:
        either: set[asyncio.Future[Any]] = {request, health}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if request.done():
            raise RestartRequested(request.result())
        health.result()
    finally:
        health.cancel()
        await asyncio.gather(health, return_exceptions=True)


async def _watch_health(probe: EngineProbe) -> None:
    """Never return; raise EngineProbeFailed after `_MAX_HEALTH_FAILURES` in a row."""
    num_failures = 0
    while True:
        await asyncio.sleep(_HEALTH_PERIOD_S)
        try:
            await probe.check_health(HEALTH_TIMEOUT_S)
            num_failures = 0
        except EngineProbeNotSent as failure:
            logger.warning("the engine's health was not checked: %s", failure)
        except EngineProbeFailed:
            num_failures += 1
            if num_failures >= _MAX_HEALTH_FAILURES:
                raise
