"""The mock server in this process: it listens, accepts connections and closes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from paceline.testing.mock_vllm.app import App
from paceline.testing.mock_vllm.engine.engine import Engine
from paceline.testing.mock_vllm.engine.engine_runner import EngineRunner
from paceline.testing.mock_vllm.faults.fault import Fault
from paceline.testing.mock_vllm.faults.fault_book import FaultBook
from paceline.testing.mock_vllm.faults.server_faults import ServerFaults
from paceline.testing.mock_vllm.http.wire import Connection, Exchange
from paceline.testing.mock_vllm.request_log import RequestLog
from paceline.testing.mock_vllm.settings import MockVllmSettings


class MockVllm:
    """A mock vLLM server, as an async context manager.

    async with MockVllm(MockVllmSettings(model="m")) as server:
        ...  # server.url

    By default the fault `die` does not end this process: it closes the port and resets all
    connections. `spawn_mock_vllm` runs the server in a process of its own, which does die.
    """

    def __init__(
        self,
        settings: MockVllmSettings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        socket_path: Path | None = None,
        faults: Sequence[Fault] = (),
        request_log_path: Path | None = None,
        exit_process: Callable[[int | None], None] | None = None,
    ) -> None:
        """Port 0 takes a free port; `socket_path` opens a Unix socket instead of a port.

        `exit_process` carries out the fault `die`: it gets an exit code, or None for SIGKILL.
        """
        self.settings = settings or MockVllmSettings()
        self._host, self._port, self._socket_path = host, port, socket_path
        self._initial_faults = list(faults)
        self._request_log_path = request_log_path
        self._exit_process = exit_process
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> MockVllm:
        self._loop = asyncio.get_running_loop()
        self._runner = EngineRunner(Engine(self.settings))
        self.request_log = RequestLog(self._request_log_path)
        book = FaultBook(self.settings.seed)
        self._faults = ServerFaults(book, self._runner, self.request_log, self)
        self._app = App(self.settings, self._runner, self.request_log, book, self._faults)
        await self.listen()
        self._faults.add(self._initial_faults)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._faults.close()
        self.request_log.end_all("stopped")
        self._close_abruptly()
        self.request_log.close()
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        """The port that the server listens on; 0 for a Unix socket."""
        return 0 if self._socket_path else self._port

    @property
    def url(self) -> str:
        return "http://localhost" if self._socket_path else f"http://{self._host}:{self._port}"

    async def listen(self) -> None:
        """Listen on the port or socket. Does nothing if the server listens already."""
        if self._listener is not None:
            return

        def protocol() -> Connection:
            return Connection(self.route, self._connections)

        if self._socket_path:
            self._socket_path.unlink(missing_ok=True)
            self._listener = await self._loop.create_unix_server(
                protocol, str(self._socket_path), backlog=4096
            )
        else:
            self._listener = await self._loop.create_server(
                protocol, self._host, self._port, backlog=4096
            )
            self._port = self._listener.sockets[0].getsockname()[1]

    def stop_listening(self) -> None:
        """Close the port or socket; open connections continue."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            if self._socket_path:
                self._socket_path.unlink(missing_ok=True)

    def route(self, exchange: Exchange) -> None:
        """Answer a request, or hold it while the server is frozen."""
        if self._faults.is_frozen:
            self._faults.hold(exchange)
        else:
            self._app.route(exchange)

    def die(self, exit_code: int | None) -> None:
        """End the process if `exit_process` was given, else close abruptly."""
        if self._exit_process is not None:
            self._exit_process(exit_code)
        else:
            self._close_abruptly()

    def _close_abruptly(self) -> None:
        self.stop_listening()
        self._runner.pause()
        for connection in list(self._connections):
            connection.reset()


def exit_process(exit_code: int | None) -> NoReturn:
    """End this process immediately, with the exit code or, if that is None, by SIGKILL."""
    if exit_code is None:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(exit_code or 0)
