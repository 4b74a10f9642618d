"""Open, run and close both ports of the gateway.

Callers use only `serve_gateway`; they own the event loop and the signals.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from paceline.gateway.admin.admin_app import AdminApp
from paceline.gateway.admin.governor_changes import GovernorChanges
from paceline.gateway.data_port import DataPort, owned_task
from paceline.gateway.fleet import Fleet
from paceline.gateway.http.listening import bind, serving
from paceline.gateway.hung_replicas import HungReplicas, read_activity
from paceline.gateway.metrics.metrics import GatewayMetrics
from paceline.gateway.proxy.lease import Traffic
from paceline.gateway.replicas import ReplicaSource
from paceline.gateway.routing.stall_detection import StallLimits
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.time_limits import ADMIN_DRAIN_S
from paceline.gateway.workers.pool import WorkerPool


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that listens on both ports."""

    host: str
    port: int
    admin_host: str
    admin_port: int
    traffic: Traffic
    """Requests in flight and breaker states by replica."""
    fleet: Fleet
    """All replicas, local and remote."""
    _servers: tuple[asyncio.Task[None], ...] = ()

    @property
    def url(self) -> str:
        return _url(self.host, self.port)

    @property
    def admin_url(self) -> str:
        return _url(self.admin_host, self.admin_port)

    async def wait_failed(self) -> None:
        """Return only when a server ends by itself; raises the exception that ended it."""
        done, _ = await asyncio.wait(self._servers, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


@contextlib.asynccontextmanager
async def serve_gateway(
    settings: GatewaySettings,
    source: ReplicaSource,
    changes: GovernorChanges | None = None,
    on_hung: Callable[[str], None] = lambda name: None,
) -> AsyncIterator[RunningGateway]:
    """Open both ports and serve until the block ends; then drain, at most `drain_timeout_s`.

    `source` lists the local engines; remote replicas come from the settings and are polled here.
    `changes` collects the governor changes of operators, so that the owner of the engines can
    repeat them after a restart. `on_hung` is called with the name of a replica that hangs (see
    `HungReplicas`); it must not block or raise.

    Raises `PortTaken` when a port cannot be opened, and `WorkerFailed` when a worker process
    cannot serve. Installs no signal handlers.
    """
    with contextlib.ExitStack() as stack:
        data_socket = stack.enter_context(bind(settings.host, settings.port, "port"))
        admin_socket = stack.enter_context(
            bind(settings.admin_host, settings.admin_port, "admin_port")
        )
        port = data_socket.getsockname()[1]
        metrics = GatewayMetrics()
        is_single_process = settings.workers == 1
        data = DataPort(settings, metrics) if is_single_process else WorkerPool(settings, metrics)
        async with Fleet(settings.fleet, source, data.traffic.num_in_flight) as fleet:
            admin = AdminApp(
                settings,
                fleet,
                data.traffic,
                metrics,
                changes or GovernorChanges(),
                data.worker_samples,
            )
            hung = HungReplicas(fleet, data, StallLimits.of(settings), read_activity, on_hung)
            async with (
                serving(admin, admin_socket, settings, drain_s=ADMIN_DRAIN_S) as admin_port,
                data.serving(fleet, data_socket) as data_task,
                owned_task(hung.run()),
            ):
                yield RunningGateway(
                    host=settings.host,
                    port=port,
                    admin_host=settings.admin_host,
                    admin_port=admin_socket.getsockname()[1],
                    traffic=data.traffic,
                    fleet=fleet,
                    _servers=(data_task, admin_port.task),
                )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
