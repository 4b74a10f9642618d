"""How are both ports opened, run and closed?

`serve_gateway` is the gateway's whole surface for its caller, who owns the event loop and the
signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from paceline.gateway.admin_app import AdminApp
from paceline.gateway.asgi import App
from paceline.gateway.breaker import Breakers
from paceline.gateway.data_app import DataApp
from paceline.gateway.fleet.fleet import Fleet
from paceline.gateway.governor_changes import GovernorChanges
from paceline.gateway.housekeeping import Housekeeping
from paceline.gateway.journey import Ground
from paceline.gateway.lease import Ledger
from paceline.gateway.metrics import GatewayMetrics
from paceline.gateway.progress import ProgressWatch
from paceline.gateway.protocol import GuardedProtocol
from paceline.gateway.replicas import ReplicaSource
from paceline.gateway.retry_budget import RetryBudget
from paceline.gateway.routing import Router
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.upstream import Upstreams


class PortTaken(Exception):
    """A port cannot be opened; the message says which, why and where to set it."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """Where the gateway listens."""

    host: str
    port: int
    admin_host: str
    admin_port: int
    ledger: Ledger
    """Requests in flight per replica."""
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
        """Returns only if a server ends by itself; raises what ended it."""
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

    `source` gives the local engines; remote replicas are in the settings and watched here.
    What operators change in the governors is noted in `changes`, for whoever restarts engines.
    `on_hung` is called with the name of a replica that brings no bytes although it should; it must
    not block or raise.
    Raises `PortTaken` when a port cannot be opened. Installs no signal handlers.
    """
    with contextlib.ExitStack() as stack:
        data_socket = stack.enter_context(_bind(settings.host, settings.port, "port"))
        admin_socket = stack.enter_context(
            _bind(settings.admin_host, settings.admin_port, "admin_port")
        )
        metrics, breakers = GatewayMetrics(), Breakers(settings.failures)
        progress = ProgressWatch(
            settings.failures, settings.stall_timeout_s, settings.first_byte_timeout_s
        )
        ledger = Ledger(breakers, progress)
        async with (
            Upstreams(settings) as upstreams,
            Fleet(settings.fleet, source, ledger.num_in_flight) as fleet,
        ):
            router = Router(fleet, ledger, breakers, settings.admission)
            ground = Ground(settings, router, upstreams, ledger, *_budgets(settings), metrics)
            data = DataApp(settings, fleet, ground)
            admin = AdminApp(settings, fleet, ledger, metrics, changes or GovernorChanges())
            async with (
                _owned(Housekeeping(fleet, ledger, upstreams, on_hung).run()),
                _serving(admin, admin_socket, settings, drain_s=1) as admin_task,
                _serving(
                    data, data_socket, settings, drain_s=settings.drain_timeout_s
                ) as data_task,
            ):
                yield RunningGateway(
                    host=settings.host,
                    port=data_socket.getsockname()[1],
                    admin_host=settings.admin_host,
                    admin_port=admin_socket.getsockname()[1],
                    ledger=ledger,
                    fleet=fleet,
                    _servers=(data_task, admin_task),
                )
                data.is_stopping = True


@contextlib.asynccontextmanager
async def _owned(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """A task that ends with the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _budgets(settings: GatewaySettings) -> tuple[RetryBudget, RetryBudget]:
    """For attempts that begin anew, and for streams that are continued."""
    failures = settings.failures
    return (
        RetryBudget(failures.retry_fraction, failures.retry_reserve),
        RetryBudget(failures.continuation_fraction, failures.continuation_reserve),
    )


class _Server(uvicorn.Server):
    """A server in somebody else's process: signals are the caller's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _serving(
    app: App, listener: socket.socket, settings: GatewaySettings, *, drain_s: float
) -> AsyncIterator[asyncio.Task[None]]:
    config = uvicorn.Config(
        app,
        http=functools.partial(  # type: ignore[arg-type]
            GuardedProtocol,
            head_timeout_s=settings.body_timeout_s,
            client_stall_timeout_s=settings.client_stall_timeout_s,
        ),
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=drain_s,  # type: ignore[arg-type]
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield task
    finally:
        server.should_exit = True
        await task
        for connection in list(server.server_state.connections):
            assert isinstance(connection, GuardedProtocol)
            connection.reset_if_paused()  # it could not take the error that ends its answer
        # uvicorn cancels what did not drain and does not wait for it
        await asyncio.gather(*server.server_state.tasks, return_exceptions=True)


def _bind(host: str, port: int, setting: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise PortTaken(f"The address {host!r} is not known ({error}); set another host.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)  # from here on clients may connect; they wait for the server
    except OSError as error:
        listener.close()
        raise PortTaken(
            f"Port {port} on {host} cannot be opened ({error.strerror}); set {setting} to a free "
            "one, or to 0 to have one chosen."
        ) from None
    listener.setblocking(False)
    return listener


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
