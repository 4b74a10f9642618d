"""`TakeOver`: the new side of a hand-over. The package's docstring has the whole exchange."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.supervisor import EngineStatus, RunningEngine
from paceline.runtime.serve.handover.connection import Connection
from paceline.runtime.serve.handover.messages import (
    TIMEOUT_S,
    VERSION,
    Changes,
    HandOverBroken,
    Offer,
    OfferedEngine,
    Owned,
    Refused,
    Released,
    Take,
)
from paceline.runtime.serve.handover.owner_address import OwnerAddress, connect_to_owner
from paceline.runtime.serve.handover.packets import MAX_DESCRIPTORS, MAX_PACKET_BYTES, unpack


class TakeOverFailed(Exception):
    """The running process cannot be taken over from, and continues; the message says why."""


class TakeOver:
    """An offer of a running process, with its file descriptors. Close it."""

    def __init__(self, connected: socket.socket, offer: Offer, descriptors: list[int]) -> None:
        """Owns the connection and the descriptors: the listening sockets, a pipe per engine."""
        self.offer = offer
        self.is_owner = False
        """Whether the engines belong to this process."""
        self.sockets = tuple(socket.socket(fileno=one) for one in descriptors[: offer.num_sockets])
        """As in `RunningGateway`."""
        pipes = descriptors[offer.num_sockets :]
        self._connection = Connection(connected)
        self._offered = {
            engine.name: _running(engine, pipe)
            for engine, pipe in zip(offer.engines, pipes, strict=True)
        }
        self._adopted: dict[str, RunningEngine] = {}
        self._old_ended: asyncio.Task[None] | None = None

    @classmethod
    def begin(cls, host: str, port: int) -> TakeOver | None:
        """Ask the process that serves this data port; None if there is none of this user.

        Raises `TakeOverFailed` if it cannot hand over.
        """
        connected = connect_to_owner(host, port, TIMEOUT_S)
        if connected is None:
            return None
        try:
            return cls(connected, *_receive_offer(connected))
        except (HandOverBroken, OSError) as error:
            connected.close()
            raise TakeOverFailed(
                f"the process that serves port {port} does not hand over: {error}"
            ) from None

    def adopt(self, name: str, served_name: str) -> RunningEngine | None:
        """The offered engine of this name, to be owned after `take`; None if there is none.

        An engine that serves another model is not adopted.
        """
        engine = self._offered.get(name)
        if engine is None or engine.served_name != served_name:
            return None
        self._adopted[name] = self._offered.pop(name)
        return engine

    def leave_others(self) -> None:
        """Leave the engines that were not adopted to the old process, whatever happens to it."""
        for engine in self._offered.values():
            os.close(engine.guard_pipe)
        self._offered.clear()

    async def take(self, address: OwnerAddress, host: str, port: int) -> Changes:
        """Become the owner of the adopted engines; returns what operators have changed.

        Call it when this process serves the ports. Raises `TakeOverFailed` if the old process
        remains the owner.
        """
        changes = self.offer.changes
        failure = "it does not free its address"
        try:
            self._connection.send(Take({name: one.pid for name, one in self._adopted.items()}))
            answer = await self._connection.receive(TIMEOUT_S)
            if isinstance(answer, Refused):
                raise self._failed(answer.reason)
            if not isinstance(answer, Released):
                raise self._failed(f"it sent {type(answer).__name__} instead of Released")
            changes = answer.changes
        except TimeoutError:
            raise self._failed(f"it did not answer within {TIMEOUT_S:g} s") from None
        except HandOverBroken as error:  # it has ended, or has closed the connection to continue
            failure = str(error)
        if not await address.acquire_within(host, port, TIMEOUT_S):
            raise self._failed(failure)
        self.is_owner = True
        self._adopted.clear()  # the pipes belong to the supervisors
        with contextlib.suppress(HandOverBroken):  # it has just ended
            self._connection.send(Owned())
        self._old_ended = asyncio.create_task(self._watch_old())
        return changes

    async def wait_old_ended(self, timeout_s: float | None = None) -> None:
        """Return when the old process has completed its requests, or after this time; at once if
        it was not taken over from."""
        if self._old_ended is not None:
            await asyncio.wait({self._old_ended}, timeout=timeout_s)

    def close(self) -> None:
        """End the connection, and close what nobody has adopted."""
        if self._old_ended is not None:
            self._old_ended.cancel()
        self._connection.close()
        for listener in self.sockets:
            listener.close()
        self._offered |= self._adopted
        self._adopted.clear()
        self.leave_others()

    async def _watch_old(self) -> None:
        with contextlib.suppress(HandOverBroken):
            while True:  # it sends nothing more; its end is the end of the connection
                await self._connection.receive()

    def _failed(self, reason: str) -> TakeOverFailed:
        return TakeOverFailed(f"process {self.offer.pid} has not handed over: {reason}")


def _receive_offer(connected: socket.socket) -> tuple[Offer, list[int]]:
    """Raises `HandOverBroken`, and OSError when nothing comes."""
    packet, descriptors, _, _ = socket.recv_fds(connected, MAX_PACKET_BYTES, MAX_DESCRIPTORS)
    try:
        offer = unpack(packet, descriptors)
        if isinstance(offer, Refused):
            raise HandOverBroken(offer.reason)
        if not isinstance(offer, Offer):
            raise HandOverBroken(f"it sent {type(offer).__name__} instead of Offer")
        if offer.version != VERSION or len(descriptors) != (offer.num_sockets + len(offer.engines)):
            raise HandOverBroken(
                f"process {offer.pid} hands over in version {offer.version}, this one takes over "
                f"in version {VERSION}; stop the running process first"
            )
    except HandOverBroken:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return offer, descriptors


def _running(engine: OfferedEngine, pipe: int) -> RunningEngine:
    control = engine.control_socket
    return RunningEngine(
        name=engine.name,
        served_name=engine.served_name,
        pid=engine.pid,
        guard_pipe=pipe,
        command=EngineCommand(
            arguments=engine.arguments,
            environment={},
            socket=Path(engine.socket),
            control_socket=None if control is None else Path(control),
            serves_undrafted=engine.serves_undrafted,
            swapped_draft=engine.swapped_draft,
        ),
        run_folder=Path(engine.run_folder),
        log=Path(engine.log),
        status=EngineStatus(
            "ready",
            engine.max_model_len,
            engine.revision,
            engine.num_restarts,
            engine.num_without_alarm,
            engine.version,
        ),
    )
