"""`ProbePort`: the port for probes alone, which is off unless `server.probe_port` is set.

With several worker processes, the main process serves it: it kills and replaces a worker that
hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from paceline.runtime.gateway.api.probe_app import ProbeApp
from paceline.runtime.gateway.hops import refusing_loops
from paceline.runtime.gateway.http.listening import Listening, serving
from paceline.runtime.gateway.replicas import ReplicaSource
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import ADMIN_DRAIN_S, PROBE_TIMEOUT_S

MAX_PROBE_CONNECTIONS = 64
"""Chosen empirically: each probe has one for milliseconds."""


class ProbePort:
    """The probe port while it is served."""

    def __init__(self, app: ProbeApp, listening: Listening) -> None:
        self._app = app
        self._listening = listening

    @property
    def task(self) -> asyncio.Task[None]:
        """Ends by itself only when the server fails."""
        return self._listening.task

    def discourage(self, *, is_accepting: bool = True) -> None:
        """Answer `/ready` with 503; without `is_accepting`, another process has the socket."""
        self._app.is_stopping = True
        self._listening.discourage(is_accepting=is_accepting)


@contextlib.asynccontextmanager
async def serving_probes(
    source: ReplicaSource,
    listeners: Sequence[socket.socket],
    settings: GatewaySettings,
    gateway_id: str,
) -> AsyncIterator[ProbePort | None]:
    """Serve until the block ends; nothing without a listener."""
    if not listeners:
        yield None
        return
    app = ProbeApp(source, settings.retry_after_s)
    limits = replace(
        settings, body_timeout_s=PROBE_TIMEOUT_S, client_stall_timeout_s=PROBE_TIMEOUT_S
    )
    async with serving(
        refusing_loops(app, gateway_id),
        listeners[0],
        limits,
        drain_s=ADMIN_DRAIN_S,
        max_connections=MAX_PROBE_CONNECTIONS,
    ) as listening:
        yield ProbePort(app, listening)
