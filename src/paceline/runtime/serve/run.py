"""Run the engines and the gateway together in one process until a signal comes.

The gateway opens first: a port in use is reported at once, and early requests get a 503 with
Retry-After. It also closes first, so that requests in flight still have their engine. After a
signal everything ends with exit code 0; a second signal does not wait for requests in flight.

A process that takes over from a running one begins with that one's engines, and accepts
connections once its replicas are ready. A process that was taken over from ends like after SIGTERM,
but leaves the engines that the other one has adopted. A process that ends after a signal can be
taken over from until it has completed its requests. While a process ends, a `LeavingNotice` says
that its ports will be free (`predecessor`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from paceline.foundation.machine.rare_garbage_collection import rare_garbage_collection
from paceline.runtime.gateway import (
    Fleet,
    GatewaySettings,
    GovernorChanges,
    PortTaken,
    RunningGateway,
    serve_gateway,
)
from paceline.runtime.gateway.leaving_notice import LeavingNotice, ports_of
from paceline.runtime.gateway.own_limits import raise_descriptor_limit
from paceline.runtime.serve.engine_drafts import SupervisedDrafts
from paceline.runtime.serve.engines import Engines
from paceline.runtime.serve.handover.fleet_changes import apply_changes
from paceline.runtime.serve.handover.handing_over import HandingOver
from paceline.runtime.serve.handover.outgoing import Outgoing
from paceline.runtime.serve.handover.owner_address import OwnerAddress, has_owner
from paceline.runtime.serve.handover.taking_over import TakeOver
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.shutdown_signals import cancelled_by, shutdown_signals

_READY_CHECK_S = 0.1
"""Time between two checks for a ready remote replica when there are no local engines. Chosen
empirically."""
_HUNG = "its streams sent no data, although its health check passed"
_RESTARTED = "an operator restarts it"
_MAX_SETTLE_CHECKS = 100
"""A process that takes over waits ten seconds, at most, for replicas that have not answered yet,
once one is ready. Chosen empirically: three failed polls take six seconds."""

OnProgress = Callable[[str, str], None]


async def serve(
    plan: ServePlan,
    *,
    on_progress: OnProgress,
    on_ready: Callable[[RunningGateway], None],
    taken: TakeOver | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until another process has taken over.

    `on_progress` gets the name of an engine or replica and its current step. `taken` is the offer
    of the process to take over from. `plan.run_folder` must exist. Raises PortTaken, WorkerFailed,
    KeysUnusable, EngineFailed or TakeOverFailed when something cannot start.
    """
    raise_descriptor_limit()
    changes = GovernorChanges()
    async with contextlib.AsyncExitStack() as stack:
        signalled = stack.enter_context(shutdown_signals())
        leaving = LeavingNotice(ports_of(plan.gateway))
        stack.callback(leaving.withdraw)
        address = stack.enter_context(OwnerAddress())  # both held until the engines have ended
        handing_over = stack.enter_context(HandingOver(address, plan.start_timeout_s))
        engines = await stack.enter_async_context(Engines.open(plan, changes, taken, on_progress))
        opening = functools.partial(
            serve_gateway,
            plan.gateway,
            engines,
            changes,
            on_hung=functools.partial(engines.restart, _HUNG),
            on_restart=functools.partial(engines.restart, _RESTARTED, is_planned=True),
            drafts=SupervisedDrafts(plan, engines.supervisors),
        )
        stack.push_async_callback(handing_over.stop)  # after the drain, before the engines end
        gateway: RunningGateway | None = None
        async with cancelled_by(signalled):
            if taken is None:
                _reserve(address, plan.gateway)
                gateway = await stack.enter_async_context(opening())
                address.acquire(plan.gateway.host, gateway.port)
                engines.start_new()
            else:
                # Requests of the old process may still be in flight on the engines.
                stack.push_async_callback(taken.wait_old_ended, plan.gateway.drain_timeout_s)
                changes.restore(taken.offer.changes.governors)
                engines.start_new()
                gateway = await stack.enter_async_context(
                    opening(
                        sockets=taken.sockets,
                        before_accepting=functools.partial(_settle, taken, engines, on_progress),
                        before_restart=taken.wait_old_ended,
                        allows_changes=False,
                    )
                )
                await _take(taken, address, plan, gateway, engines, changes)
        if gateway is None or (taken is not None and not taken.is_owner):
            if taken is None:  # otherwise the ports belong to a process that continues
                leaving.announce()
            on_progress("paceline", "stopping")
            return
        outgoing = Outgoing(gateway, engines.supervisors, changes)
        stack.callback(_announce, leaving, outgoing)  # also after a failure
        stack.callback(outgoing.start_draining)
        handed_over = handing_over.start(plan.gateway.host, gateway.port, outgoing)
        async with _tasks(
            _wait_ready(engines, gateway.fleet, on_progress),
            signalled.wait(),
            gateway.wait_failed(),
        ) as (ready, *waiting):
            ends = {*waiting, handed_over, *engines.tasks}
            await asyncio.wait({ready, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                stack.enter_context(rare_garbage_collection())
                on_ready(gateway)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in ends if task.done()]
        if not outgoing.is_taken:
            for task in ended:
                task.result()
        _announce(leaving, outgoing)
        on_progress("paceline", _stopping(gateway, plan.gateway.drain_timeout_s))
        if outgoing.is_taken:
            await asyncio.sleep(plan.gateway.lame_duck_s)
        elif signalled.number is signal.SIGTERM:  # not after Ctrl-C, which a person waits for
            gateway.discourage()
            await asyncio.sleep(plan.gateway.lame_duck_s)


def _reserve(address: OwnerAddress, settings: GatewaySettings) -> None:
    """Of two processes that start at once, the second one ends here, and can say why.

    Without the address, which another user may have bound, the port decides. Raises `PortTaken`.
    """
    if not settings.port or address.acquire(settings.host, settings.port):
        return
    if has_owner(settings.host, settings.port):
        raise PortTaken(
            f"Port {settings.port} on {settings.host} is served, or about to be, by another "
            "process; set server.port (--port) to a free one, or to 0 to have one chosen."
        )


def _announce(leaving: LeavingNotice, outgoing: Outgoing) -> None:
    """Say that the ports will be free, unless another process has them from here on."""
    if outgoing.is_taken:
        leaving.withdraw()
    else:
        leaving.announce()


def _stopping(gateway: RunningGateway, drain_timeout_s: float) -> str:
    replicas = gateway.fleet.replicas()
    num_in_flight = sum(gateway.traffic.num_in_flight(replica.name) for replica in replicas)
    if not num_in_flight:
        return "stopping"
    return (
        f"stopping; requests in flight ({num_in_flight}) have {drain_timeout_s:g} s to complete, a "
        "second signal ends them"
    )


async def _settle(taken: TakeOver, engines: Engines, on_progress: OnProgress, fleet: Fleet) -> None:
    """Wait until this process can serve what the old one serves. Raises what ends an engine."""
    apply_changes(fleet, taken.offer.changes.fleet)
    async with _tasks(_wait_ready(engines, fleet, on_progress)) as (ready,):
        await asyncio.wait({ready, *engines.tasks}, return_when=asyncio.FIRST_COMPLETED)
        engines.raise_failed()
    for _ in range(_MAX_SETTLE_CHECKS):
        if not any(replica.state == "starting" for replica in fleet.replicas()):
            return
        await asyncio.sleep(_READY_CHECK_S)


async def _take(
    taken: TakeOver,
    address: OwnerAddress,
    plan: ServePlan,
    gateway: RunningGateway,
    engines: Engines,
    changes: GovernorChanges,
) -> None:
    """Become the owner of the old process's engines. Raises `TakeOverFailed`."""
    final = await taken.take(address, plan.gateway.host, gateway.port)
    engines.start_adopted()  # before anything that a signal could cancel
    changes.restore(final.governors)
    apply_changes(gateway.fleet, final.fleet)
    gateway.allow_changes()
    if final.governors != taken.offer.changes.governors:
        await engines.restore_new_governors(changes, plan.gateway.control_timeout_s)


async def _wait_ready(engines: Engines, fleet: Fleet, on_progress: OnProgress) -> None:
    """Return once all local engines are ready or, without local engines, one remote replica is.

    If all remote replicas are down, the gateway waits for one to recover; until then clients get
    a 503.
    """
    supervisors = engines.supervisors
    await asyncio.gather(*(supervisor.wait_ready() for supervisor in supervisors))
    while not supervisors and not any(r.state == "ready" for r in fleet.replicas()):
        for status in fleet.statuses():
            on_progress(status.replica.name, f"{status.replica.state}: {status.reason}")
        for entry in fleet.dns_entries():
            if entry.failure:
                on_progress(entry.name, entry.failure)
        await asyncio.sleep(_READY_CHECK_S)


@contextlib.asynccontextmanager
async def _tasks(*works: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Tasks that end with the block."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
