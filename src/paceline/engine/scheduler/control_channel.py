"""How an operator reads and changes the governor of a running engine.

A Unix socket inside vLLM's engine-core process. One JSON object per line, one answer per line, a
connection may carry many:

    {"op": "state"}                                        → {"ok": true, "state": {…}}
    {"op": "set", "policy": …, "draft_length": …, "ceiling": …}
                                    → {"ok": true, "state": {…}} or {"ok": false, "error": "…"}

Each connection has its own thread, so the channel answers while the engine is idle or busy; what
it changes is guarded by the steering's lock and holds from the next planned step on.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

# Under "vllm", the one logger that vLLM configures in its own processes.
logger = logging.getLogger("vllm.paceline.control")

# A command is under 200 bytes; the bound keeps a stray client from filling memory.
_MAX_LINE_BYTES = 64 * 1024
# A connection that says nothing is closed, so that forgotten clients do not pile up threads.
_IDLE_TIMEOUT_S = 600.0


class Controllable(Protocol):
    """What the channel controls. Called from the channel's threads; must not block."""

    def state(self) -> dict[str, Any]:
        """The present state, fit for JSON."""
        ...

    def set(self, command: Mapping[str, Any]) -> None:
        """Carry the command out, or raise ValueError in words and change nothing."""
        ...


def answer(line: bytes, controlled: Controllable) -> dict[str, Any]:
    """The answer to one request line. Mutates `controlled` for a valid set; never raises."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"ok": False, "error": f"the line is not JSON: {error}"}
    if not isinstance(request, dict):
        return {"ok": False, "error": f"the line is {request!r}; it must be a JSON object"}
    command = dict(request)
    operation = command.pop("op", None)
    if operation not in ("state", "set"):
        return {"ok": False, "error": f"op is {operation!r}; allowed are state, set"}
    try:
        if operation == "set":
            controlled.set(command)
        elif command:
            return {"ok": False, "error": f"state takes no {sorted(command)[0]!r}"}
    except ValueError as error:
        return {"ok": False, "error": str(error)}
    return {"ok": True, "state": controlled.state()}


class ControlServer:
    """Listens until closed. The thread is a daemon: it never keeps the engine from ending."""

    def __init__(self, path: str, controlled: Controllable) -> None:
        """Bind the socket, readable and writable for this user only; OSError when in use."""
        self._path = path
        _remove_dead_socket(path)
        self._server = _Server(path, controlled)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="paceline-control", daemon=True
        )
        self._thread.start()
        logger.info("Governor: control channel on %s", path)

    def close(self) -> None:
        """Stop listening and remove the socket. Harmless the second time."""
        self._server.shutdown()
        self._server.server_close()
        Path(self._path).unlink(missing_ok=True)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64
    block_on_close = False

    def __init__(self, path: str, controlled: Controllable) -> None:
        self.controlled = controlled
        super().__init__(path, _Connection)

    def server_bind(self) -> None:
        """Bind for this user only, from the first moment on: changing the mode comes too late."""
        umask = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(umask)


class _Connection(socketserver.StreamRequestHandler):
    timeout = _IDLE_TIMEOUT_S
    server: _Server

    def handle(self) -> None:
        try:
            while line := self.rfile.readline(_MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    return  # longer than any command, or cut off: no answer would fit
                reply = answer(line, self.server.controlled)
                self.wfile.write(json.dumps(reply).encode() + b"\n")
        except OSError as error:  # the client went away, or was silent for too long
            logger.debug("Governor: control connection ended: %s", error)


def _remove_dead_socket(path: str) -> None:
    """A socket nobody answers is left from a process that was killed; anything else stays."""
    if not Path(path).is_socket():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            logger.debug("Governor: cannot tell whether %s is in use: %s", path, error)
