"""Client of the control channel of a governor, and the address of the channel by default.

The channel is a Unix socket of vLLM's engine core; `engine.scheduler.control_channel` has its
commands. `paceline serve` gives it a path. A `vllm serve` of one's own has it at an abstract
address, which ends in the process id of the server: it needs no folder, no other machine can reach
it, and each end asks the kernel whether the other belongs to the same user.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
from collections.abc import Mapping
from typing import Any

from paceline.foundation.machine import abstract_sockets

_MAX_LINE_BYTES = 1024 * 1024


class ChannelClosed(OSError):
    """Nobody of this user listens at the address, or the connection ended without an answer."""


def address_of(pid: int) -> str:
    """The address for the vLLM server with this process id."""
    return f"{_prefix()}{pid}"


def own_address() -> str:
    """The address for the server that this process belongs to: vLLM starts its engine core, and
    each of several API servers, as children of it."""
    is_child = multiprocessing.parent_process() is not None
    return address_of(os.getppid() if is_child else os.getpid())


def list_servers() -> list[int]:
    """Process ids of this user's vLLM servers on this machine that have a channel."""
    prefix = _prefix()
    found = [path.removeprefix(prefix) for path in abstract_sockets.list_paths()]
    return sorted({int(name) for name in found if name.isdigit()})


def send(path: str, request: Mapping[str, object], timeout_s: float = 5.0) -> dict[str, Any]:
    """The state in the answer. Raises ValueError with the governor's words if it refuses, OSError
    if there is no answer."""
    with _connect(path, timeout_s) as connected:
        connected.sendall(json.dumps(request).encode() + b"\n")
        with connected.makefile("rb") as answers:
            line = answers.readline(_MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise ChannelClosed("the connection was closed before an answer came")
    answer = json.loads(line)
    if isinstance(answer, dict) and isinstance(answer.get("state"), dict):
        return dict(answer["state"])
    raise ValueError(answer["error"])


def _connect(path: str, timeout_s: float) -> socket.socket:
    if not path.startswith("\0"):
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(timeout_s)
        try:
            connected.connect(path)
        except OSError:
            connected.close()
            raise
        return connected
    found = abstract_sockets.connect(path, socket.SOCK_STREAM, timeout_s)
    # A server in another container may have the same process id; the kernel does not name it here.
    if found is not None and abstract_sockets.peer_pid(found) != 0:
        return found
    if found is not None:
        found.close()
    raise ChannelClosed("no governor of this user listens there")


def _prefix() -> str:
    return f"\0paceline-governor-{os.getuid()}-"
