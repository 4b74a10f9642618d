"""The control channel over a real Unix socket."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.engine.scheduler.control_channel import ControlServer


class Controlled:
    """A controllable object with one value."""

    def __init__(self) -> None:
        self.length = 3

    def state(self) -> dict[str, Any]:
        return {"draft_length": self.length}

    def set(self, command: Mapping[str, Any]) -> None:
        if not 0 <= command["draft_length"] <= 8:
            raise ValueError("draft_length must be 0 to 8")
        self.length = command["draft_length"]

    def record(self, command: Mapping[str, Any]) -> dict[str, Any]:
        if command["action"] != "status":
            raise ValueError(f"no action {command['action']!r}")
        return {"recording": False}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "c.sock")


@pytest.fixture
def server(path: str) -> Iterator[ControlServer]:
    server = ControlServer(path, Controlled())
    yield server
    server.close()


def exchange(path: str, *lines: bytes) -> list[dict[str, Any]]:
    """Send the lines over one connection and read one answer for each."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60.0)
        connection.connect(path)
        reader = connection.makefile("rb")
        answers = []
        for line in lines:
            connection.sendall(line + b"\n")
            answers.append(json.loads(reader.readline()))
    return answers


def test_one_connection_carries_many_requests(server: ControlServer, path: str) -> None:
    """Read, set, read."""
    answers = exchange(path, b'{"op":"state"}', b'{"op":"set","draft_length":0}', b'{"op":"state"}')
    assert answers == [
        {"ok": True, "state": {"draft_length": 3}},
        {"ok": True, "state": {"draft_length": 0}},
        {"ok": True, "state": {"draft_length": 0}},
    ]


def test_a_command_on_the_recording_gets_its_status(server: ControlServer, path: str) -> None:
    (answer,) = exchange(path, b'{"op":"record","action":"status"}')
    assert answer == {"ok": True, "state": {"recording": False}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[1]", "must be a JSON object"),
        (b"{}", "op is None; it must be state, set or record"),
        (b'{"op":"stop"}', "op is 'stop'"),
        (b'{"op":"state","draft_length":1}', "state takes no key 'draft_length'"),
        (b'{"op":"state","policy":"off","ceiling":1}', "state takes no key 'ceiling'"),
        (b'{"op":"set","draft_length":9}', "must be 0 to 8"),
        (b'{"op":"record","action":"rewind"}', "no action 'rewind'"),
    ],
)
def test_a_bad_line_gets_an_error_and_the_connection_stays_open(
    server: ControlServer, path: str, line: bytes, message: str
) -> None:
    """The next request on the same connection is answered normally."""
    refused, after = exchange(path, line, b'{"op":"state"}')
    assert refused["ok"] is False
    assert message in refused["error"]
    assert after == {"ok": True, "state": {"draft_length": 3}}


def test_an_overlong_line_closes_only_its_own_connection(server: ControlServer, path: str) -> None:
    """64 KiB without a newline; other connections are served."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60.0)
        connection.connect(path)
        connection.sendall(b"x" * 65536)
        assert connection.recv(1) == b""
    assert exchange(path, b'{"op":"state"}')[0]["ok"] is True


def test_idle_clients_do_not_delay_others(server: ControlServer, path: str) -> None:
    """Eight idle connections; a ninth is answered."""
    idle = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    for connection in idle:
        connection.connect(path)
    assert exchange(path, b'{"op":"state"}')[0]["ok"] is True
    for connection in idle:
        connection.close()


def test_the_socket_is_accessible_to_this_user_only(server: ControlServer, path: str) -> None:
    """Mode 0600."""
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_the_socket_is_private_before_it_accepts_connections(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mode at the moment it begins to listen, under umask 0."""
    modes = []
    listen = socketserver.UnixStreamServer.server_activate

    def note_mode_and_listen(self: socketserver.UnixStreamServer) -> None:
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))
        listen(self)

    monkeypatch.setattr(socketserver.UnixStreamServer, "server_activate", note_mode_and_listen)
    umask = os.umask(0)
    try:
        ControlServer(path, Controlled()).close()
        assert modes == [0o600]
        assert os.umask(0) == 0  # the umask is restored
    finally:
        os.umask(umask)


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(path: str) -> None:
    """A killed process leaves its socket; a running one still needs it."""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()
    server = ControlServer(path, Controlled())
    with pytest.raises(OSError, match="in use"):
        ControlServer(path, Controlled())
    assert exchange(path, b'{"op":"state"}')[0]["ok"] is True
    server.close()


def test_closing_removes_the_socket_and_is_idempotent(path: str) -> None:
    server = ControlServer(path, Controlled())
    server.close()
    server.close()
    assert not Path(path).exists()


def test_no_thread_delays_the_end_of_the_engine(path: str) -> None:
    """Neither the one that listens nor that of a connection; closing ends the first."""
    others = set(threading.enumerate())
    server = ControlServer(path, Controlled())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60.0)
        connection.connect(path)
        connection.sendall(b'{"op":"state"}\n')
        assert connection.recv(4096)
        started = set(threading.enumerate()) - others
        assert len(started) == 2
        assert all(thread.daemon for thread in started)
    server.close()
    for thread in started:
        thread.join(60.0)
        assert not thread.is_alive()


def test_closing_leaves_no_file_open(path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    ControlServer(path, Controlled()).close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_socket_that_does_not_answer_is_in_use(path: str) -> None:
    """Its process hangs, and its queue of connections is full."""
    with socket.socket(socket.AF_UNIX) as hung, socket.socket(socket.AF_UNIX) as waiting:
        hung.bind(path)
        hung.listen(0)
        waiting.connect(path)
        with pytest.raises(OSError, match="in use"):
            ControlServer(path, Controlled())
