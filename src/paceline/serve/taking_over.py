"""The new side of a hand-over: continue with the ports and the engines of a running process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from paceline.engine.launch.command import EngineCommand
from paceline.engine.process.supervisor import EngineStatus, RunningEngine
from paceline.serve.handover import (
    MAX_DESCRIPTORS,
    MAX_MESSAGE_BYTES,
    VERSION,
    Offer,
    OfferedEngine,
    Released,
    Taken,
    address_of,
    is_own_user,
)

logger = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
"""For each message of the old process. Chosen empirically: it answers in milliseconds."""


class TakeOverFailed(Exception):
    """The running process cannot be taken over from; the message says why."""


@dataclass
class TakeOver:
    """An offer of a running process, with its file descriptors. Close it."""

    offer: Offer
    data_socket: socket.socket
    admin_socket: socket.socket
    engines: dict[str, RunningEngine]
    """The offered engines by name. Who adopts one owns its pipe."""
    _connected: socket.socket
    _adopted: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, host: str, port: int) -> TakeOver | None:
        """Ask the process that serves this data port; None if there is none.

        Raises `TakeOverFailed` if it cannot hand over.
        """
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connected.settimeout(_TIMEOUT_S)
        try:
            connected.connect(address_of(host, port))
        except OSError:
            connected.close()
            return None
        try:
            if not is_own_user(connected):
                raise TakeOverFailed(f"the process that serves port {port} is another user's")
            message, descriptors, _, _ = socket.recv_fds(
                connected, MAX_MESSAGE_BYTES, MAX_DESCRIPTORS
            )
            offer = msgspec.json.decode(message, type=Offer)
        except (OSError, msgspec.MsgspecError) as error:
            connected.close()
            raise TakeOverFailed(
                f"the process that serves port {port} made no offer: {error}"
            ) from None
        if offer.version != VERSION or len(descriptors) != 2 + len(offer.engines):
            connected.close()
            for descriptor in descriptors:
                os.close(descriptor)
            raise TakeOverFailed(
                f"process {offer.pid} hands over in version {offer.version}, this one takes over "
                f"in version {VERSION}; stop the running process first"
            )
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        data, admin, *pipes = descriptors
        return cls(
            offer,
            socket.socket(fileno=data),
            socket.socket(fileno=admin),
            {
                engine.name: _running(engine, pipe)
                for engine, pipe in zip(offer.engines, pipes, strict=True)
            },
            connected,
        )

    def adopt(self, name: str, served_name: str) -> RunningEngine | None:
        """The offered engine of this name, for its new owner; None if there is none to adopt.

        An engine that serves another model is not adopted.
        """
        engine = self.engines.get(name)
        if engine is None or engine.served_name != served_name:
            return None
        self._adopted[name] = engine.pid
        return self.engines.pop(name)

    async def confirm(self) -> None:
        """Report that this process serves; returns when the old one accepts no more connections.

        Does not raise: if the old process is gone, there is nothing left to wait for.
        """
        loop = asyncio.get_running_loop()
        self._connected.setblocking(False)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                taken = Taken(self._adopted)
                await loop.sock_sendall(self._connected, msgspec.json.encode(taken))
                answer = await loop.sock_recv(self._connected, MAX_MESSAGE_BYTES)
                msgspec.json.decode(answer, type=Released)
        except (OSError, TimeoutError, msgspec.MsgspecError) as error:
            logger.warning("the process that was taken over from did not answer: %s", error)
        finally:
            self._connected.close()

    def close(self) -> None:
        """End the connection, and close what nobody has adopted."""
        self._connected.close()
        self.data_socket.close()
        self.admin_socket.close()
        for engine in self.engines.values():
            os.close(engine.guard_pipe)
        self.engines.clear()


def differing(engine: RunningEngine, command: EngineCommand, folders: Iterable[Path]) -> bool:
    """Whether the engine was started with other arguments than `command` has.

    The folders of sockets, which differ in each run, do not count.
    """

    def plain(arguments: tuple[str, ...]) -> list[str]:
        texts = list(arguments)
        for folder in folders:
            texts = [text.replace(str(folder), "") for text in texts]
        return texts

    return plain(engine.command.arguments) != plain(command.arguments)


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
        ),
        log=Path(engine.log),
        status=EngineStatus("ready", engine.max_model_len, engine.revision, engine.num_restarts),
    )
