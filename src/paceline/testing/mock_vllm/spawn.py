"""Run a mock server in a child process that a test can kill, stop and restart."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType


class SpawnedMockVllm:
    """A mock server in a child process. A restart keeps its port. Call `close`, or use `with`."""

    def __init__(
        self,
        flags: Sequence[str],
        port: int,
        environment: Mapping[str, str],
        reservation: socket.socket | None = None,
    ) -> None:
        """`reservation` keeps the port from all other programs, until this is closed."""
        self.port = port
        self._reservation = reservation
        self._flags = tuple(flags)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._parent_pipe_fd: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process, or of the last one."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the killing signal; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def start(self, timeout_s: float = 60.0) -> None:
        """Start or restart the server on the same port; returns when it listens.

        Raises `RuntimeError` if the process ends first, `TimeoutError` after `timeout_s`.
        """
        if self._process is not None and self._process.poll() is None:
            raise RuntimeError(f"The mock server on port {self.port} is already running.")
        self._close_pipe()
        # When this process ends, even by SIGKILL, the pipe closes, and then the child exits.
        read_fd, self._parent_pipe_fd = os.pipe()
        command = [sys.executable, "-m", "paceline.testing.mock_vllm", "--port", str(self.port)]
        command += ["--parent-fd", str(read_fd), *self._flags]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=self._environment, pass_fds=(read_fd,)
        )
        os.close(read_fd)
        deadline_s = time.monotonic() + timeout_s
        while not self._is_listening():
            if self._process.poll() is not None:
                code = self._process.returncode
                raise RuntimeError(f"The mock server exited with {code} before it listened.")
            if time.monotonic() > deadline_s:
                self.close()
                raise TimeoutError(
                    f"The mock server did not listen on port {self.port} within {timeout_s} s."
                )
            time.sleep(0.02)

    def kill(self) -> None:
        """Send SIGKILL and wait for the process to end."""
        self._signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """Send SIGSTOP: the port stays open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT, after `stop`."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM and wait for the process to end."""
        self._signal(signal.SIGTERM)
        self.wait()

    def wait(self, timeout_s: float = 60.0) -> int:
        """Wait for the process to end and return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def close(self) -> None:
        """Kill the process if it runs. May be called more than once."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._close_pipe()
        if self._reservation is not None:
            self._reservation.close()

    def __enter__(self) -> SpawnedMockVllm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _close_pipe(self) -> None:
        if self._parent_pipe_fd is not None:
            os.close(self._parent_pipe_fd)
            self._parent_pipe_fd = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _is_listening(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


def spawn_mock_vllm(*flags: str, port: int | None = None) -> SpawnedMockVllm:
    """Start `paceline mock-vllm` with these flags in a child process; returns when it listens.

    Without `port`, a free one is chosen. `flags` are those of the command except `--port`:

    with spawn_mock_vllm("--model", "m", "--tpot-ms", "5") as server:
        ...
        server.kill()
        server.start()
    """
    reservation = _reserve_port() if port is None else None
    port = reservation.getsockname()[1] if reservation is not None else port
    assert port is not None
    spawned = SpawnedMockVllm(flags, port, _environment(), reservation)
    spawned.start()
    return spawned


def _environment() -> dict[str, str]:
    """This process's environment and import path, so that the child runs the same Paceline."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _reserve_port() -> socket.socket:
    """A socket on a free port that no other program gets, also while the mock is down.

    It does not listen: connections are refused until the mock listens, which may bind the same port
    because both sockets allow that. One that is bound without that permission is refused.

    Raises `RuntimeError` if there is none.
    """
    for _ in range(100):
        reservation = socket.socket()
        try:
            reservation.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, 20_000)))
        except OSError:
            reservation.close()
            continue
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return reservation
    raise RuntimeError("100 ports of 127.0.0.1 from 10000 to 20000 are in use")
