"""How do the engines and the gateway run together in one process, and how do they end?

The gateway opens first, so that a taken port is known at once and early clients get a 503 with
Retry-After; it closes first too, so that requests in flight still have their engine. A signal ends
everything with exit code 0, a second one without waiting for requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

from paceline.engine.process.supervisor import EngineSupervisor
from paceline.gateway import Fleet, GovernorChanges, Replica, RunningGateway, ask, serve_gateway
from paceline.gateway.process import rare_garbage_collection
from paceline.serve.plan import EnginePlan, ServePlan

logger = logging.getLogger(__name__)

_READY_CHECK_S = 0.1
"""Chosen by hand: how often a gateway without engines of its own looks for a replica."""


class SupervisedReplicas:
    """The gateway's view of the supervised engines."""

    def __init__(self, supervisors: Sequence[EngineSupervisor]) -> None:
        self._supervisors = supervisors

    def replicas(self) -> Sequence[Replica]:
        return [_replica(supervisor) for supervisor in self._supervisors]


def _replica(supervisor: EngineSupervisor) -> Replica:
    return Replica(
        name=supervisor.name,
        address=str(supervisor.command.socket),
        model=supervisor.served_name,
        state=supervisor.status.state,
        control_socket=supervisor.command.control_socket,
        max_model_len=supervisor.status.max_model_len,
        num_restarts=supervisor.status.num_restarts,
        drafts=supervisor.command.control_socket is not None,
    )


async def serve(
    plan: ServePlan,
    *,
    on_progress: Callable[[str, str], None],
    on_ready: Callable[[RunningGateway], None],
) -> None:
    """Serve until SIGTERM or SIGINT.

    PortTaken, WorkerFailed, KeysUnusable or EngineFailed when it cannot start.
    """
    changes = GovernorChanges()
    supervisors = [
        EngineSupervisor(
            engine.name,
            engine.command,
            served_name=plan.served_name or "",
            log=plan.log_folder / f"{engine.name}.log",
            run_folder=plan.run_folder,
            start_timeout_s=plan.start_timeout_s,
            on_progress=on_progress,
            before_ready=functools.partial(
                restore_governor, engine, changes, plan.gateway.control_timeout_s
            ),
        )
        for engine in plan.engines
    ]
    async with contextlib.AsyncExitStack() as stack:
        signalled = stack.enter_context(_signals())
        engines = await stack.enter_async_context(_Tasks.open())
        gateway: RunningGateway | None = None
        async with _given_up_when(signalled):
            gateway = await stack.enter_async_context(
                serve_gateway(
                    plan.gateway,
                    SupervisedReplicas(supervisors),
                    changes,
                    on_hung=functools.partial(_restart_hung, supervisors),
                )
            )
        if gateway is None:
            on_progress("paceline", "stopping")
            return
        ends = {
            asyncio.create_task(signalled.wait()),
            asyncio.create_task(gateway.wait_failed()),
            *(engines.start(supervisor.run()) for supervisor in supervisors),
        }
        ready = asyncio.create_task(_ready(supervisors, gateway.fleet, on_progress))
        try:
            await asyncio.wait({ready, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                stack.enter_context(rare_garbage_collection())
                on_ready(gateway)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            _raise_first(ends)
            on_progress("paceline", "stopping")
        finally:
            for task in (ready, *ends):
                if task not in engines.tasks:
                    task.cancel()


def _restart_hung(supervisors: Sequence[EngineSupervisor], name: str) -> None:
    """A remote replica is left to its own operator."""
    for supervisor in supervisors:
        if supervisor.name == name:
            supervisor.restart("its streams stood still, although it said that it is well")


async def restore_governor(engine: EnginePlan, changes: GovernorChanges, timeout_s: float) -> None:
    """Set the governor of a fresh engine as operators left the one before. Does not raise."""
    socket = engine.command.control_socket
    if socket is None:
        return  # nothing to govern: no change was ever accepted
    for command in changes.commands(engine.name):
        answer = await ask(engine.name, socket, command, timeout_s)
        if answer.error is not None:
            logger.error(
                "the governor of the restarted engine %s could not be set as before: %s; "
                "set it again with PATCH /admin/governor",
                engine.name,
                answer.error,
            )


async def _ready(
    supervisors: Sequence[EngineSupervisor], fleet: Fleet, on_progress: Callable[[str, str], None]
) -> None:
    """Return once all engines have been ready, or, where there are none, one remote replica is.

    A gateway in front of replicas that are all down waits: they may come, and until then clients
    get a 503.
    """
    await asyncio.gather(*(supervisor.wait_ready() for supervisor in supervisors))
    while not supervisors and not any(r.state == "ready" for r in fleet.replicas()):
        for status in fleet.statuses():
            on_progress(status.replica.name, f"{status.replica.state}: {status.reason}")
        for name in fleet.dns_entries():
            if name.failure:
                on_progress(name.name, name.failure)
        await asyncio.sleep(_READY_CHECK_S)


def _raise_first(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


class _Tasks:
    """Owns the engines' tasks: when its block ends, they are cancelled and waited for."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[_Tasks]:
        owner = cls()
        try:
            yield owner
        finally:
            for task in owner.tasks:
                task.cancel()
            # What they raised has been raised by `serve` already, or comes second to it.
            await asyncio.gather(*owner.tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second cancels the caller's task."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    signalled = asyncio.Event()

    def received() -> None:
        if signalled.is_set():
            main.cancel()
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received)
    try:
        yield signalled
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _given_up_when(signalled: asyncio.Event) -> AsyncIterator[None]:
    """Cancel the block, and only that, when the signal comes before its end."""

    async def watch() -> None:
        await signalled.wait()
        limit.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as limit:
            watching = asyncio.create_task(watch())
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
