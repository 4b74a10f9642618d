"""Client of a replica's control channel: read and change the state of its governor.

One JSON line each way over a Unix socket, on a new connection for each request; there are only a
few requests per minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from paceline.runtime.gateway.replicas import Replica

_MAX_LINE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    """The answer of one replica: the state of its governor, or why there is none."""

    replica: str
    state: Mapping[str, Any] | None
    error: str | None = None
    is_refusal: bool = False
    """The replica refused the request: the request is at fault, not the replica."""


async def send_to_governors(
    replicas: Sequence[Replica], request: Mapping[str, object], timeout_s: float
) -> list[ControlAnswer]:
    """Send the request to all replicas at once; the answers are in their order. Does not raise."""
    return await asyncio.gather(
        *(_send_if_ready(replica, request, timeout_s) for replica in replicas)
    )


async def _send_if_ready(
    replica: Replica, request: Mapping[str, object], timeout_s: float
) -> ControlAnswer:
    if replica.control_socket is None:
        return ControlAnswer(replica.name, None, "the replica has no control channel")
    if replica.state != "ready":
        return ControlAnswer(replica.name, None, f"the replica is {replica.state}")
    return await send_to_governor(replica.name, replica.control_socket, request, timeout_s)


async def send_to_governor(
    name: str, control_socket: Path, request: Mapping[str, object], timeout_s: float
) -> ControlAnswer:
    """Send the request to the replica called `name`, in any state. Does not raise."""
    try:
        async with asyncio.timeout(timeout_s):
            line = await _exchange(str(control_socket), request)
        answer = msgspec.json.decode(line)
    except TimeoutError:
        return ControlAnswer(name, None, f"no answer within {timeout_s:g} s")
    except (OSError, ValueError) as error:  # msgspec.DecodeError is a ValueError
        return ControlAnswer(name, None, f"the control channel failed: {error}")
    if isinstance(answer, dict) and answer.get("ok") is True:
        state = answer.get("state")
        if isinstance(state, dict):
            return ControlAnswer(name, state)
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        return ControlAnswer(name, None, answer["error"], is_refusal=True)
    return ControlAnswer(name, None, "the control channel returned an invalid answer")


async def _exchange(path: str, request: Mapping[str, object]) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE_BYTES)
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line.endswith(b"\n"):
        raise OSError("the connection was closed before an answer came")
    return line
