"""Open, run and close the ports of the gateway.

Callers use only `serve_gateway`; they own the event loop and the signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from paceline.runtime.gateway.admin.admin_app import AdminApp
from paceline.runtime.gateway.admin.change_gate import ChangeGate
from paceline.runtime.gateway.admin.draft_swaps import DraftSwaps
from paceline.runtime.gateway.admin.engine_drafts import EngineDrafts, NoEngines
from paceline.runtime.gateway.admin.engine_restarts import EngineRestarts
from paceline.runtime.gateway.admin.governor_changes import GovernorChanges
from paceline.runtime.gateway.admin.governor_control import send_to_governors
from paceline.runtime.gateway.data_port import DataPort, owned_task
from paceline.runtime.gateway.fleet import Fleet
from paceline.runtime.gateway.hops import new_gateway_id, refusing_loops
from paceline.runtime.gateway.http.listening import Listening, PortTaken, bind, is_bound_to, serving
from paceline.runtime.gateway.hung_replicas import HungReplicas, read_activity
from paceline.runtime.gateway.live_view.live_view import LiveView
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.own_limits import descriptor_limit, max_admin_connections
from paceline.runtime.gateway.probe_port import ProbePort, serving_probes
from paceline.runtime.gateway.proxy.lease import Traffic
from paceline.runtime.gateway.replicas import ReplicaSource
from paceline.runtime.gateway.routing.stall_detection import StallLimits
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import (
    ADMIN_DRAIN_S,
    LIVE_VIEW_GOVERNOR_S,
    LIVE_VIEW_WORKER_S,
)
from paceline.runtime.gateway.workers.pool import WorkerPool


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that listens on its ports."""

    host: str
    port: int
    admin_host: str
    admin_port: int
    probe_port: int | None
    """None without a port for probes alone."""
    traffic: Traffic
    """Requests in flight and breaker states by replica."""
    fleet: Fleet
    """All replicas, local and remote."""
    sockets: tuple[socket.socket, ...]
    """The listening sockets of the data port, the admin port and the probe port, if there is one;
    closed once it stops."""
    _data: DataPort | WorkerPool
    _admin: Listening
    _probes: ProbePort | None
    _restarts: EngineRestarts
    _swaps: DraftSwaps
    _gate: ChangeGate
    _live: LiveView
    _servers: tuple[asyncio.Task[None], ...] = ()

    @property
    def url(self) -> str:
        return _url(self.host, self.port)

    @property
    def admin_url(self) -> str:
        return _url(self.admin_host, self.admin_port)

    def discourage(self) -> None:
        """Serve on, with `/ready` at 503 and `Connection: close` on every answer."""
        if self._probes is not None:
            self._probes.discourage()
        self._data.discourage()

    def stop_accepting(self) -> None:
        """The same, but leave new connections to another process that has the sockets."""
        if self._probes is not None:
            self._probes.discourage(is_accepting=False)
        self._data.discourage(is_accepting=False)
        self._admin.discourage(is_accepting=False)
        self._live.end_streams()

    @property
    def restarting(self) -> Sequence[str]:
        """The engines that an operator restarts at this moment."""
        return self._restarts.names

    @property
    def is_swapping_draft(self) -> bool:
        """Whether the engines are being restarted with another draft, one by one."""
        return self._swaps.is_under_way

    async def stop_changes(self) -> None:
        """Refuse changes by operators from here on; returns when those under way have ended."""
        await self._gate.close()

    def allow_changes(self) -> None:
        """Accept changes by operators."""
        self._gate.open()

    async def wait_failed(self) -> None:
        """Return only when a server ends by itself; raises the exception that ended it."""
        done, _ = await asyncio.wait(self._servers, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _fetch_states(fleet: Fleet) -> dict[str, Mapping[str, object]]:
    """The states of the governors by replica, without those that did not answer in time."""
    governed = [replica for replica in fleet.replicas() if replica.control_socket is not None]
    answers = await send_to_governors(governed, {"op": "state"}, LIVE_VIEW_GOVERNOR_S)
    return {answer.replica: answer.state for answer in answers if answer.state is not None}


async def _at_once(fleet: Fleet) -> None:
    """Accept connections without waiting for a replica."""


async def _sole_user() -> None:
    """No other process has requests on the engines."""


@contextlib.asynccontextmanager
async def serve_gateway(
    settings: GatewaySettings,
    source: ReplicaSource,
    changes: GovernorChanges | None = None,
    on_hung: Callable[[str], None] = lambda name: None,
    *,
    on_restart: Callable[[str], None] = lambda name: None,
    before_restart: Callable[[], Awaitable[None]] = _sole_user,
    drafts: EngineDrafts | None = None,
    sockets: tuple[socket.socket, ...] = (),
    before_accepting: Callable[[Fleet], Awaitable[None]] = _at_once,
    allows_changes: bool = True,
) -> AsyncIterator[RunningGateway]:
    """Open the ports and serve until the block ends; then drain, at most `drain_timeout_s`.

    `source` lists the local engines; remote replicas come from the settings and are polled here.
    `changes` collects the governor changes of operators, so that the owner of the engines can
    repeat them after a restart. `on_hung` is called with the name of a replica that hangs (see
    `HungReplicas`), `on_restart` with that of an engine that an operator restarts; they must not
    block or raise. `before_restart` is awaited before such an engine is drained. `drafts` are
    those of the local engines, which an operator may swap; they are restarted by `on_restart`.

    `sockets`, as in `RunningGateway`, are offered by a gateway that hands over its ports; they are
    owned here. One whose address is not that of the settings is closed, and
    another one is opened. `before_accepting` is awaited while the replicas are polled, before any
    connection is accepted. Without `allows_changes`, changes by operators get a 503 until
    `allow_changes`.

    Raises `PortTaken` when a port cannot be opened, and `WorkerFailed` when a worker process
    cannot serve. Installs no signal handlers.
    """
    with contextlib.ExitStack() as stack:
        for offered in sockets:
            stack.enter_context(offered)
        listeners = []
        for index, (host, port, setting) in enumerate(settings.ports):
            offered_one = sockets[index] if index < len(sockets) else None
            listeners.append(stack.enter_context(_listener(offered_one, host, port, setting)))
        for unused in sockets[len(listeners) :]:
            unused.close()
        ports = [one.getsockname()[1] for one in listeners]
        metrics = GatewayMetrics()
        gateway_id = new_gateway_id()
        data = (
            DataPort(settings, metrics, gateway_id=gateway_id)
            if settings.workers == 1
            else WorkerPool(settings, metrics, gateway_id)
        )
        in_flight = data.traffic.num_in_flight
        async with Fleet(settings.fleet, source, in_flight, gateway_id=gateway_id) as fleet:
            await before_accepting(fleet)
            gate = ChangeGate(is_open=allows_changes)
            restarts = EngineRestarts(
                fleet,
                data.traffic.num_in_flight,
                on_restart,
                settings.drain_timeout_s,
                before_restart,
            )
            swaps = DraftSwaps(drafts or NoEngines(), fleet, restarts)
            live = LiveView(
                fleet,
                data.traffic,
                metrics,
                lambda: _fetch_states(fleet),
                lambda: data.worker_samples(LIVE_VIEW_WORKER_S),
            )
            admin = AdminApp(
                settings,
                fleet,
                data.traffic,
                metrics,
                changes or GovernorChanges(),
                data.worker_samples,
                restarts,
                swaps,
                gate,
                live,
            )
            hung = HungReplicas(fleet, data, StallLimits.of(settings), read_activity, on_hung)
            async with (
                restarts,
                swaps,
                serving_probes(fleet, listeners[2:], settings, gateway_id) as probes,
                serving(
                    refusing_loops(admin, gateway_id),
                    listeners[1],
                    settings,
                    drain_s=ADMIN_DRAIN_S,
                    max_connections=max_admin_connections(settings, descriptor_limit()),
                ) as admin_listening,
                live.running(),  # it shows the drain of the data port, and ends its streams after
                data.serving(fleet, listeners[0]) as data_task,
                owned_task(hung.run()),
            ):
                servers = [data_task, admin_listening.task]
                if probes is not None:
                    servers.append(probes.task)
                yield RunningGateway(
                    host=settings.host,
                    port=ports[0],
                    admin_host=settings.admin_host,
                    admin_port=ports[1],
                    probe_port=ports[2] if len(ports) > 2 else None,
                    traffic=data.traffic,
                    fleet=fleet,
                    sockets=tuple(listeners),
                    _data=data,
                    _admin=admin_listening,
                    _probes=probes,
                    _restarts=restarts,
                    _swaps=swaps,
                    _gate=gate,
                    _live=live,
                    _servers=tuple(servers),
                )
                if probes is not None:
                    probes.discourage()  # it answers until the data port has drained


def _listener(offered: socket.socket | None, host: str, port: int, setting: str) -> socket.socket:
    """The offered socket if it has the address of the settings, else a new one.

    The settings are checked against their own address: without a key, for instance, the admin port
    must be on loopback.
    """
    if offered is None:
        return bind(host, port, setting)
    if is_bound_to(offered, host, port):
        return offered
    other_host, other_port = offered.getsockname()[:2]
    offered.close()
    try:
        return bind(host, port, setting)
    except PortTaken as error:
        raise PortTaken(
            f"{error} The process to take over from serves it at {_url(other_host, other_port)}."
        ) from None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
