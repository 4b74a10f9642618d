"""`HandingOver`: the old side of a hand-over. The package's docstring has the whole exchange."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from types import TracebackType

from paceline.foundation.machine.abstract_sockets import is_own_user, peer_pid
from paceline.runtime.serve.handover.connection import Connection, has_peer_ended
from paceline.runtime.serve.handover.messages import (
    TIMEOUT_S,
    HandOverBroken,
    Owned,
    Refused,
    Released,
    Take,
)
from paceline.runtime.serve.handover.outgoing import Outgoing
from paceline.runtime.serve.handover.owner_address import OwnerAddress

logger = logging.getLogger(__name__)

_RETRY_S = 1.0
"""Chosen empirically."""
_PREPARE_S = 120.0
"""What a new process may need beside the start of its engines: its workers start within
`WORKER_START_TIMEOUT_S` (60 s), and its replicas answer within 10 s. Chosen empirically."""


def take_timeout_s(start_timeout_s: float) -> float:
    """How long to wait for `Take` after the offer. `start_timeout_s` is that of an engine."""
    return start_timeout_s + _PREPARE_S


class HandingOver:
    """Hands over at most once. At the end of the block the new process sees that this one ends."""

    def __init__(self, address: OwnerAddress, start_timeout_s: float) -> None:
        self._address = address
        self._start_timeout_s = start_timeout_s
        self._waiting: socket.socket | None = None
        """A process that connected when the one before it had just ended."""
        self._successor: Connection | None = None
        """Open until this process has completed its requests."""
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> HandingOver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for open_end in (self._successor, self._waiting):
            if open_end is not None:
                open_end.close()

    def start(self, host: str, port: int, outgoing: Outgoing) -> asyncio.Task[None]:
        """Begin to answer processes that take over; `stop` ends the task."""
        self._task = asyncio.create_task(self.run(host, port, outgoing))
        return self._task

    async def stop(self) -> None:
        """Answer no more. Engines that are offered at this moment are left to the other process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self, host: str, port: int, outgoing: Outgoing) -> None:
        """Return when another process owns the engines. Waits for it as long as necessary."""
        while self._address.is_held:
            try:
                connected = await self._next_process()
            except OSError as error:  # no descriptors left, perhaps for a while
                logger.warning("a hand-over could not begin: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            connection = Connection(connected)
            if has_peer_ended(connected):  # it only wanted to know whose the address is
                connection.close()
                continue
            try:
                if not is_own_user(connected):
                    raise HandOverBroken("a process of another user asked")
                exchange = _Exchange(connection, self._address, host, port, outgoing)
                async with self._refusing_others(connected):
                    take = await exchange.offer(take_timeout_s(self._start_timeout_s))
                await exchange.hand_over(take)
            except HandOverBroken as error:
                logger.warning("no other process has taken over (%s); this one continues", error)
            except Exception:  # a bug here must not end a server that serves
                logger.exception("a hand-over failed inside this process, which continues")
            finally:
                if outgoing.is_taken:
                    self._successor = connection
                else:
                    connection.close()
            if outgoing.is_taken:
                return
        logger.warning(
            "no `paceline serve --take-over` can take over from this process: the Unix address for "
            "%s:%d is bound by another one",
            host,
            port,
        )
        await asyncio.get_running_loop().create_future()

    async def _next_process(self) -> socket.socket:
        waiting, self._waiting = self._waiting, None
        return await self._address.accept() if waiting is None else waiting

    @contextlib.asynccontextmanager
    async def _refusing_others(self, pending: socket.socket) -> AsyncIterator[None]:
        """Refuse the processes that connect during the block, while `pending` is connected."""
        refusing = asyncio.create_task(self._refuse_others(pending))
        try:
            yield
        finally:
            refusing.cancel()
            await asyncio.gather(refusing, return_exceptions=True)

    async def _refuse_others(self, pending: socket.socket) -> None:
        reason = f"process {peer_pid(pending)} is about to take over; end it, or try again later"
        while True:
            try:
                connected = await self._address.accept()
            except OSError:  # no descriptors left, perhaps for a while
                await asyncio.sleep(_RETRY_S)
                continue
            if has_peer_ended(pending):
                self._waiting = connected
                return
            with (
                contextlib.closing(Connection(connected)) as other,
                contextlib.suppress(HandOverBroken),
            ):
                other.send(Refused(reason))


class _Exchange:
    """One process that may take over; `Outgoing.is_taken` says whether it has."""

    def __init__(
        self,
        connection: Connection,
        address: OwnerAddress,
        host: str,
        port: int,
        outgoing: Outgoing,
    ) -> None:
        self._connection = connection
        self._address = address
        self._host = host
        self._port = port
        self._outgoing = outgoing

    async def offer(self, timeout_s: float) -> Take:
        """Returns the answer. Raises `HandOverBroken` when this process remains the owner."""
        obstacle = self._outgoing.obstacle_to_offer()
        if obstacle is not None:
            self._connection.send(Refused(obstacle))
            raise HandOverBroken(obstacle)
        offer, descriptors = self._outgoing.offer()
        self._connection.send(offer, descriptors)
        try:
            take = await self._connection.receive(timeout_s)
        except TimeoutError:
            raise HandOverBroken(f"it was not ready within {timeout_s:g} s") from None
        except asyncio.CancelledError:  # this process ends; the other one has copies of the pipes
            self._outgoing.leave([engine.name for engine in offer.engines])
            raise
        if not isinstance(take, Take):
            raise HandOverBroken(f"it sent {type(take).__name__} instead of Take")
        return take

    async def hand_over(self, take: Take) -> None:
        """Raises `HandOverBroken` when this process remains the owner."""
        try:
            await self._outgoing.stop_changes()
            await self._give(take)
        finally:
            if not self._outgoing.is_taken:
                self._outgoing.allow_changes()

    async def _give(self, take: Take) -> None:
        obstacle = self._outgoing.obstacle(take.engines)
        if obstacle is not None:
            self._connection.send(Refused(obstacle))
            raise HandOverBroken(obstacle)
        released = Released(self._outgoing.changes())
        self._address.give_up()
        try:
            self._connection.send(released)
            await self._wait_owned()
        except asyncio.CancelledError:  # this process stops, and must know whose the engines are
            if not self._address.acquire(self._host, self._port):
                self._outgoing.release(take.engines)
            raise
        except Exception:  # the other one has ended, or given up
            await self._address.acquire_within(self._host, self._port, TIMEOUT_S)
            raise
        self._outgoing.release(take.engines)

    async def _wait_owned(self) -> None:
        """Return when the new process owns the engines; raises `HandOverBroken` otherwise."""
        while True:
            try:
                answer = await self._connection.receive(TIMEOUT_S)
            except TimeoutError:
                if self._address.acquire(self._host, self._port):
                    raise HandOverBroken(f"it sent nothing for {TIMEOUT_S:g} s") from None
                continue  # it is the owner, and will say so
            if isinstance(answer, Owned):
                return
            raise HandOverBroken(f"it sent {type(answer).__name__} instead of Owned")
