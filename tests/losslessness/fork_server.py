"""Fork processes from one that has imported vLLM, so that a test does not import it again.

Importing vLLM takes 8 s of CPU time, starting an engine of the bundled pair 2 s. The server imports
and computes nothing: it has one thread, so a fork of it is whole. Each fork has its own memory, its
own session and its own log; what a test changes in vLLM dies with the fork.

Protocol: one message per request on a socket pair, answered by one line of JSON. A message has
three file descriptors if it asks for a fork: the fork's requests, its answers, its log.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paceline.runtime.engine.launch.layout import EAGER_ENVIRONMENT

_TESTS = Path(__file__).resolve().parents[1]
_MAX_MESSAGE_BYTES = 65_536
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # The n-gram drafter's thread pool shares one core with the engine, and its idle threads spin:
    # two threads are five times slower than one.
    "NUMBA_NUM_THREADS": "1",
    "NUMBA_THREADING_LAYER": "workqueue",
    **EAGER_ENVIRONMENT,
}
_PRELOADED = (
    "vllm.entrypoints.llm",
    "vllm.model_executor.layers.quantization.online.base",
    "vllm.model_executor.models.qwen2",
    "vllm.renderers.hf",
    "vllm.v1.engine.core",
    "vllm.v1.engine.llm_engine",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.worker.cpu_worker",
    "paceline.runtime.engine.scheduler.adaptive_scheduler",
)


class ForkServer:
    """The server process, seen by the tests. It ends with the process that started it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "losslessness.fork_server", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._socket = ours

    def fork(self, *, requests: int, answers: int, log: int, environment: Mapping[str, str]) -> int:
        """Start `engine_child.serve` in a fork with these file descriptors; returns its id."""
        message = json.dumps({"op": "fork", "environment": dict(environment)}).encode()
        socket.send_fds(self._socket, [message], [requests, answers, log])
        return int(self._answer()["pid"])

    def end(self, pid: int) -> None:
        """Kill the fork and everything in its session; returns when the fork is gone."""
        self._socket.sendall(json.dumps({"op": "end", "pid": pid}).encode())
        self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._socket.recv(_MAX_MESSAGE_BYTES)
        if not line:
            raise RuntimeError(f"the fork server ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@cache
def shared_fork_server() -> ForkServer:
    """One server per test process, started on first use."""
    return ForkServer()


def _preload() -> None:
    """Import what every engine needs, and exclude it from garbage collection.

    An engine's start collects garbage several times; with vLLM's objects frozen that takes no time.
    vLLM inspects a model class it has not seen on this machine in a subprocess that imports vLLM
    again; here it inspects the class in its own process.
    """
    gc.disable()
    for name in _PRELOADED:
        importlib.import_module(name)
    registry = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda inspect: inspect()  # type: ignore[attr-defined]
    gc.enable()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        raise RuntimeError(f"{len(threads)} threads after importing vLLM; a fork would lose them")


def _serve(connection: socket.socket) -> None:
    """Fork and end children until the test process closes its end of the socket pair."""
    children: set[int] = set()
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, 3)
        if not message:
            break
        request = json.loads(message)
        if request["op"] == "fork":
            pid = os.fork()
            if pid == 0:
                connection.close()
                _become_child(descriptors, request["environment"])
                return
            for descriptor in descriptors:
                os.close(descriptor)
            children.add(pid)
            connection.sendall(json.dumps({"pid": pid}).encode())
        else:
            _end(request["pid"])
            children.discard(request["pid"])
            connection.sendall(b"{}")
    for pid in children:
        _end(pid)


def _become_child(descriptors: list[int], environment: Mapping[str, str]) -> None:
    from losslessness import engine_child

    requests, answers, log = descriptors
    os.setsid()
    os.dup2(requests, sys.stdin.fileno())
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(requests)
    os.close(log)
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR is read again
    with os.fdopen(answers, "w", encoding="utf-8") as pipe:
        engine_child.serve(pipe)


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # the fork may not have made its session yet
    os.waitpid(pid, 0)


if __name__ == "__main__":
    _preload()
    with socket.socket(fileno=int(sys.argv[1])) as connection_to_tests:
        _serve(connection_to_tests)
