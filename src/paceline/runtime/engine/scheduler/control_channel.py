"""The control channel: read, change and record a running engine over a Unix socket.

The socket belongs to vLLM's engine-core process; `governor_channel` is a client. Each line is one
JSON object and gets one line as answer; a connection may send many:

    {"op": "state"}                                        → {"ok": true, "state": {…}}
    {"op": "set", "policy": …, "policy_parameters": …, "draft_length": …, "ceiling": …}
                                    → {"ok": true, "state": {…}} or {"ok": false, "error": "…"}
    {"op": "record", "action": "start"|"status"|"stop"|"delete", "max_bytes": …, "max_seconds": …,
     "vary_draft_length": …}        → the same, with the status of the recording as state

Each connection has its own thread, so the channel answers while the engine is idle or busy. A
change is guarded by the controller's lock and applies from the next planned step.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from paceline.foundation.machine import abstract_sockets

# Below "vllm", the only logger that vLLM configures in its processes.
logger = logging.getLogger("vllm.paceline.control")

_MAX_LINE_BYTES = 64 * 1024
"""A command has less than 200 bytes; the bound keeps a faulty client from filling memory."""
_IDLE_TIMEOUT_S = 600.0
"""An idle connection is closed, so that abandoned clients do not accumulate threads."""


class Controllable(Protocol):
    """The object that the channel controls. Called from the channel's threads; must not block,
    except `record`, which may wait a few seconds for the disk."""

    def state(self) -> dict[str, Any]:
        """Return the current state, serialisable as JSON."""
        ...

    def set(self, command: Mapping[str, Any]) -> None:
        """Carry out the command, or raise ValueError that says why not and change nothing."""
        ...

    def record(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out the command and return the recording's status, or raise ValueError."""
        ...


def answer(line: bytes, controlled: Controllable) -> dict[str, Any]:
    """Return the answer to one request line. Mutates `controlled` for a valid set; never raises."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"ok": False, "error": f"the line is not JSON: {error}"}
    try:
        return {"ok": True, "state": _carry_out(request, controlled)}
    except ValueError as error:
        return {"ok": False, "error": str(error)}


def _carry_out(request: Any, controlled: Controllable) -> dict[str, Any]:
    if not isinstance(request, dict):
        raise ValueError(f"the line is {request!r}; it must be a JSON object")
    operation = request.pop("op", None)
    if operation == "record":
        return controlled.record(request)
    if operation == "set":
        controlled.set(request)
    elif operation != "state":
        raise ValueError(f"op is {operation!r}; it must be state, set or record")
    elif request:
        raise ValueError(f"state takes no key {sorted(request)[0]!r}")
    return controlled.state()


class ControlServer(socketserver.ThreadingUnixStreamServer):
    """Listens until closed. Its thread is a daemon, so it never delays the end of the engine."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: str, controlled: Controllable) -> None:
        """Bind the socket, accessible to this user only; raise OSError when it is in use.

        A path that begins with a zero byte is an abstract address.
        """
        self.controlled = controlled
        self._path = path
        self._is_abstract = path.startswith("\0")
        if not self._is_abstract:
            _remove_dead_socket(path)
        super().__init__(path, _Connection)
        threading.Thread(target=self.serve_forever, name="paceline-control", daemon=True).start()
        logger.info("Governor: control channel on %s", path.replace("\0", "@", 1))

    def close(self) -> None:
        """Stop listening and remove the socket. Idempotent."""
        self.shutdown()
        self.server_close()
        if not self._is_abstract:
            Path(self._path).unlink(missing_ok=True)

    def server_bind(self) -> None:
        """Bind under a umask: changing the mode later would leave a moment open to other users."""
        umask = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(umask)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether the client may send commands: an abstract address has no permissions, so there
        it must be a process of this user, and not one of another container."""
        if not self._is_abstract:
            return True
        return abstract_sockets.is_own_user(request) and abstract_sockets.peer_pid(request) != 0


class _Connection(socketserver.StreamRequestHandler):
    timeout = _IDLE_TIMEOUT_S
    server: ControlServer

    def handle(self) -> None:
        try:
            while line := self.rfile.readline(_MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    return  # longer than any command, or cut off: there is nothing to answer
                reply = answer(line, self.server.controlled)
                self.wfile.write(json.dumps(reply).encode() + b"\n")
        except OSError as error:  # the client disconnected, or was idle too long
            logger.debug("Governor: a control connection ended: %s", error)


def _remove_dead_socket(path: str) -> None:
    """Remove a socket that refuses connections, left by a killed process; keep anything else."""
    if not Path(path).is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            Path(path).unlink(missing_ok=True)
