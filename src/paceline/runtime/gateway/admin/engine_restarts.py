"""`EngineRestarts`: restart engines of this machine on request, without losing a request.

An engine is drained, restarted when its requests have completed, and returned to service when it is
ready again. Remote replicas are restarted by their own operators, who drain them first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from paceline.runtime.gateway.fleet import Fleet, FleetConflict, UnknownReplica

logger = logging.getLogger(__name__)

_CHECK_S = 0.1
"""Time between two checks of an engine that is being restarted. Chosen empirically."""


class EngineRestarts:
    """The restarts under way. Use it as a context; at its end they are given up."""

    def __init__(
        self,
        fleet: Fleet,
        num_in_flight: Callable[[str], int],
        restart: Callable[[str], None],
        drain_timeout_s: float,
        wait_until_sole_user: Callable[[], Awaitable[None]],
    ) -> None:
        """`restart` restarts the engine of this name at once; it must not block or raise.

        `wait_until_sole_user` returns when no other process has requests on the engines, whose
        number is unknown here; until then the engine is not drained. It must not raise.
        """
        self._fleet = fleet
        self._num_in_flight = num_in_flight
        self._restart = restart
        self._drain_timeout_s = drain_timeout_s
        self._wait_until_sole_user = wait_until_sole_user
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> EngineRestarts:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @property
    def names(self) -> Sequence[str]:
        """The engines that are being restarted."""
        return list(self._tasks)

    def begin(self, name: str) -> None:
        """Begin to restart the engine of this name; returns at once.

        Raises `UnknownReplica`, or `FleetConflict` for a remote replica, for an engine that does
        not serve, and while a restart of this engine is under way.
        """
        if name in self._tasks:
            raise FleetConflict(f"{name!r} is being restarted already.")
        for status in self._fleet.statuses():
            if status.replica.name != name:
                continue
            if status.origin != "local":
                raise FleetConflict(
                    f"{name!r} is a remote replica: drain it, restart its server, then set "
                    "draining to false."
                )
            if status.replica.state not in ("ready", "draining"):
                raise FleetConflict(f"{name!r} is {status.replica.state}; it does not serve now.")
            task = asyncio.create_task(self._run(name, status.replica.num_restarts))
            self._tasks[name] = task
            task.add_done_callback(lambda _: self._tasks.pop(name))
            return
        raise UnknownReplica(name)

    def cancel(self, name: str) -> None:
        """Give up the restart of this engine, if one is under way: it returns to service unless
        its process was ended already."""
        task = self._tasks.get(name)
        if task is not None:
            task.cancel()

    async def _run(self, name: str, num_restarts: int | None) -> None:
        """`num_restarts` is the count before; an engine that has ended since needs no restart."""
        await self._wait_until_sole_user()
        self._fleet.set_restarting(name, is_restarting=True)
        try:
            await self._drain(name)
            if self._num_restarts(name) == num_restarts:
                self._restart(name)
            while self._num_restarts(name) == num_restarts:  # noqa: ASYNC110 - there are no events
                await asyncio.sleep(_CHECK_S)
        finally:
            self._fleet.set_restarting(name, is_restarting=False)

    async def _drain(self, name: str) -> None:
        try:
            async with asyncio.timeout(self._drain_timeout_s):
                while self._num_in_flight(name):  # noqa: ASYNC110 - the count has no event
                    await asyncio.sleep(_CHECK_S)
        except TimeoutError:
            logger.warning(
                "engine %s is restarted although requests are in flight on it after %g s; streams "
                "continue on other replicas where they can",
                name,
                self._drain_timeout_s,
            )

    def _num_restarts(self, name: str) -> int | None:
        return next(r.num_restarts for r in self._fleet.replicas() if r.name == name)
