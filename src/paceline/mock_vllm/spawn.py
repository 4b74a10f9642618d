"""How does a test run a stand-in as a process of its own, to be killed or stopped?"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType


class SpawnedMockVllm:
    """A stand-in in a child process. Restarting keeps its port. Close it, or use `with`."""

    def __init__(self, flags: Sequence[str], port: int, environment: Mapping[str, str]) -> None:
        self.port = port
        self._flags = tuple(flags)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline_fd: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the running process, or of the last one."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How the process ended; None while it runs. Negative: the signal that killed it."""
        assert self._process is not None
        return self._process.poll()

    def start(self, timeout_s: float = 20.0) -> None:
        """Start, or start again on the same port; returns when it listens.

        Raises `RuntimeError` when it ends before, `TimeoutError` when it takes too long.
        """
        if self._process is not None and self._process.poll() is None:
            raise RuntimeError("This stand-in runs already.")
        self._let_go()
        # The child ends when this process does, however it does: then the pipe closes.
        theirs, self._lifeline_fd = os.pipe()
        command = [sys.executable, "-m", "paceline.mock_vllm", "--port", str(self.port)]
        command += ["--lifeline-fd", str(theirs), *self._flags]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=self._environment, pass_fds=(theirs,)
        )
        os.close(theirs)
        deadline_s = time.monotonic() + timeout_s
        while not self._listens():
            if self._process.poll() is not None:
                raise RuntimeError(f"The stand-in ended with {self._process.returncode}.")
            if time.monotonic() > deadline_s:
                self.close()
                raise TimeoutError(f"The stand-in did not listen within {timeout_s} s.")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """SIGSTOP: the port stays open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, after `stop`."""
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM, and wait until it is gone."""
        self._signal(signal.SIGTERM)
        self.wait()

    def wait(self, timeout_s: float = 20.0) -> int:
        """The return code, once the process has ended."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def close(self) -> None:
        """Kill it if it runs; harmless twice."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._let_go()

    def __enter__(self) -> SpawnedMockVllm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _let_go(self) -> None:
        if self._lifeline_fd is not None:
            os.close(self._lifeline_fd)
            self._lifeline_fd = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


def spawn_mock_vllm(*flags: str, port: int | None = None) -> SpawnedMockVllm:
    """Start `paceline mock-vllm` with these flags in a child process; returns when it listens.

    A free port is chosen when none is given. `flags` are those of the command but `--port`:

    with spawn_mock_vllm("--model", "m", "--tpot-ms", "5") as server:
        ...
        server.kill()
        server.start()
    """
    spawned = SpawnedMockVllm(flags, _free_port() if port is None else port, _environment())
    spawned.start()
    return spawned


def _environment() -> dict[str, str]:
    """This process's, with its import path, so that the child runs the same Paceline."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
