"""Open, run and close both ports of the gateway.

Callers use only `serve_gateway`; they own the event loop and the signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from paceline.gateway.admin.admin_app import AdminApp
from paceline.gateway.admin.engine_restarts import EngineRestarts
from paceline.gateway.admin.governor_changes import GovernorChanges
from paceline.gateway.data_port import DataPort, owned_task
from paceline.gateway.fleet import Fleet
from paceline.gateway.http.listening import Listening, bind, serving
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
    sockets: tuple[socket.socket, socket.socket]
    """The listening sockets of the data port and of the admin port; closed once it stops."""
    _data: DataPort | WorkerPool
    _admin: Listening
    _servers: tuple[asyncio.Task[None], ...] = ()

    @property
    def url(self) -> str:
        return _url(self.host, self.port)

    @property
    def admin_url(self) -> str:
        return _url(self.admin_host, self.admin_port)

    def discourage(self) -> None:
        """Serve on, with `/ready` at 503 and `Connection: close` on every answer."""
        self._data.discourage()

    def stop_accepting(self) -> None:
        """The same, but leave new connections to another process that has the sockets."""
        self._data.discourage(is_accepting=False)
        self._admin.discourage(is_accepting=False)

    async def wait_failed(self) -> None:
        """Return only when a server ends by itself; raises the exception that ended it."""
        done, _ = await asyncio.wait(self._servers, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _at_once(fleet: Fleet) -> None:
    """Accept connections without waiting for a replica."""


@contextlib.asynccontextmanager
async def serve_gateway(
    settings: GatewaySettings,
    source: ReplicaSource,
    changes: GovernorChanges | None = None,
    on_hung: Callable[[str], None] = lambda name: None,
    *,
    on_restart: Callable[[str], None] = lambda name: None,
    sockets: tuple[socket.socket, socket.socket] | None = None,
    before_accepting: Callable[[Fleet], Awaitable[None]] = _at_once,
) -> AsyncIterator[RunningGateway]:
    """Open both ports and serve until the block ends; then drain, at most `drain_timeout_s`.

    `source` lists the local engines; remote replicas come from the settings and are polled here.
    `changes` collects the governor changes of operators, so that the owner of the engines can
    repeat them after a restart. `on_hung` is called with the name of a replica that hangs (see
    `HungReplicas`), `on_restart` with that of an engine that an operator restarts; they must not
    block or raise. `sockets` are those of a gateway that hands over its ports; the default opens
    new ones. `before_accepting` is awaited while the replicas are polled, before any connection is
    accepted.

    Raises `PortTaken` when a port cannot be opened, and `WorkerFailed` when a worker process
    cannot serve. Installs no signal handlers.
    """
    with contextlib.ExitStack() as stack:
        if sockets is None:
            data_socket = stack.enter_context(bind(settings.host, settings.port, "port"))
            admin_socket = stack.enter_context(
                bind(settings.admin_host, settings.admin_port, "admin_port")
            )
        else:
            data_socket, admin_socket = map(stack.enter_context, sockets)
        port = data_socket.getsockname()[1]
        metrics = GatewayMetrics()
        is_single_process = settings.workers == 1
        data = DataPort(settings, metrics) if is_single_process else WorkerPool(settings, metrics)
        async with Fleet(settings.fleet, source, data.traffic.num_in_flight) as fleet:
            await before_accepting(fleet)
            restarts = EngineRestarts(
                fleet, data.traffic.num_in_flight, on_restart, settings.drain_timeout_s
            )
            admin = AdminApp(
                settings,
                fleet,
                data.traffic,
                metrics,
                changes or GovernorChanges(),
                data.worker_samples,
                restarts,
            )
            hung = HungReplicas(fleet, data, StallLimits.of(settings), read_activity, on_hung)
            async with (
                restarts,
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
                    sockets=(data_socket, admin_socket),
                    _data=data,
                    _admin=admin_port,
                    _servers=(data_task, admin_port.task),
                )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
