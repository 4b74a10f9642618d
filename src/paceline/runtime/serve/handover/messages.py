"""The messages between an old and a new process. `connection` sends and receives them.

Each message is one packet of JSON (`packets`). File descriptors travel with the `Offer`: the
listening sockets of all ports, and one pipe for each engine. Handing over the sockets themselves
loses no connection: with `SO_REUSEPORT`, each process would have its own queue, and Linux resets
the connections in the queue of a socket that is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

VERSION = 1
"""Of the messages; processes of different versions do not take over from each other."""
TIMEOUT_S = 10.0
"""For an answer of the other process. Chosen empirically: it comes within milliseconds, unless a
change by an operator is under way, which takes up to 2 s."""


class OfferedEngine(msgspec.Struct, frozen=True):
    """A ready engine. Its pipe travels beside the message."""

    name: str
    served_name: str
    pid: int
    """Process id of its guard."""
    arguments: tuple[str, ...]
    socket: str
    control_socket: str | None
    serves_undrafted: bool
    run_folder: str
    log: str
    max_model_len: int | None
    revision: str | None
    num_restarts: int
    swapped_draft: str | None = None
    """See `EngineCommand`."""
    num_planned_restarts: int | None = None
    """Of `num_restarts`. None from a process before this field; such a process ignores it."""
    version: str | None = None
    """Of its vLLM. None from a process before this field, too."""

    @property
    def num_without_alarm(self) -> int:
        """Restarts that were planned; all of them if their causes are not known."""
        planned = self.num_planned_restarts
        return self.num_restarts if planned is None else planned


class Changes(msgspec.Struct, frozen=True):
    """What operators have changed at run time."""

    governors: Mapping[str, Any] = {}
    """See `GovernorChanges.snapshot`."""
    fleet: Mapping[str, Any] = {}
    """See `snapshot_changes`."""


class Offer(msgspec.Struct, frozen=True, tag="offer"):
    """From the old process: everything that the new one may continue with."""

    version: int
    pid: int
    engines: tuple[OfferedEngine, ...] = ()
    changes: Changes = Changes()
    """So far, to prepare with."""
    num_sockets: int = 2
    """Listening sockets, as in `RunningGateway`. A process before this field has, and accepts,
    two."""


class Take(msgspec.Struct, frozen=True, tag="take"):
    """From the new process: it serves the ports, and is ready to own these engines."""

    engines: Mapping[str, int] = {}
    """Process ids of their guards by name."""


class Released(msgspec.Struct, frozen=True, tag="released"):
    """From the old process: the owner's address is free for the new one."""

    changes: Changes = Changes()
    """Final: the old process accepts no change after it."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """From the old process: it cannot hand over now, and continues."""

    reason: str


class Owned(msgspec.Struct, frozen=True, tag="owned"):
    """From the new process: it owns the engines that it has taken."""


Message = Offer | Take | Released | Refused | Owned

_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class HandOverBroken(Exception):
    """The other process has ended, or sent something else than was expected; the text says what."""


def decode(packet: bytes) -> Message:
    """The message of one packet. Raises `HandOverBroken`; an empty packet is the end."""
    if not packet:
        raise HandOverBroken("it ended")
    try:
        return _DECODER.decode(packet)
    except msgspec.MsgspecError as error:
        raise HandOverBroken(f"it sent an invalid message: {error}") from None
