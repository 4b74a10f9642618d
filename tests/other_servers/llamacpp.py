"""Start llama.cpp's server and llama-cpp-python's server, where `make` built them.

Both serve the bundled target model, converted to GGUF. They run at the lowest priority with one
thread each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from chaos.gateway_process import HTTP
from polling import wait_until

from paceline.foundation.servers.server_process import free_ports

MODEL = "tiny"
CONTEXT = 1024
"""Tokens of prompt and answer of one request."""
NUM_SLOTS = 2
"""Requests that llama.cpp's server computes at a time; it holds others."""
_INSTALLED = Path(__file__).parents[2] / ".clients" / "llamacpp"
_MISSING = (
    "llama.cpp is missing: run CLIENTS=.clients VENV=.venv scripts/install-llamacpp.sh, which "
    "needs cmake and a C++ compiler, and builds for some ten minutes"
)


def find_llamacpp() -> Path:
    """The folder with both servers. Without it the test is skipped."""
    if not (_INSTALLED / "llama_cpp" / "lib" / "llama-server").exists():
        pytest.skip(_MISSING)
    return _INSTALLED


def convert_model(folder: Path) -> Path:
    """The bundled target as a GGUF file in `folder`. Imports torch, in a process of its own."""
    out = folder / "target.gguf"
    paths = [str(find_llamacpp()), *(path for path in sys.path if path)]
    command = [sys.executable, "-m", "other_servers.gguf_model", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run(command, check=True, env=environment, timeout=300)
    return out


@dataclass
class Server:
    """One server process on loopback, which may be killed, paused and started again."""

    command: list[str]
    url: str
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    """Its working folder, if not this process's."""
    _process: subprocess.Popen[bytes] | None = None

    def start(self, within_s: float = 180.0) -> None:
        """Start it and wait until it serves."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["nice", "-n", "19", *self.command],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                cwd=self.folder,
            )
        wait_until(lambda: not self.is_alive or self._serves(), within_s)
        if not self.is_alive:
            raise RuntimeError(f"{self.command[0]} does not serve: {self.log.read_text()}")

    def _serves(self) -> bool:
        try:
            return HTTP.get(f"{self.url}/v1/models", timeout=60).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once; it may have ended already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def metrics(self) -> dict[str, float]:
        """Every sample of its /metrics, by name."""
        lines = HTTP.get(f"{self.url}/metrics").text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}


def llama_server(model: Path, folder: Path, name: str) -> Server:
    """llama.cpp's server, not started yet."""
    port, _ = free_ports()
    program = find_llamacpp() / "llama_cpp" / "lib" / "llama-server"
    command = [
        *(str(program), "--model", str(model), "--alias", MODEL),
        *("--host", "127.0.0.1", "--port", str(port), "--metrics", "--no-webui"),
        *("--ctx-size", str(NUM_SLOTS * CONTEXT), "--parallel", str(NUM_SLOTS)),
        *("--threads", "1", "--threads-batch", "1", "--threads-http", "8"),
        # the server shows nothing of its work during a batch
        *("--batch-size", "64", "--ubatch-size", "64"),
    ]
    return Server(command, f"http://127.0.0.1:{port}", folder / f"{name}.log")


def llama_cpp_python(model: Path, folder: Path) -> Server:
    """llama-cpp-python's server, not started yet. It computes one request at a time."""
    port, _ = free_ports()
    command = [
        *(sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--model_alias", MODEL),
        *("--host", "127.0.0.1", "--port", str(port), "--n_ctx", str(CONTEXT)),
        *("--n_threads", "1", "--n_threads_batch", "1"),
    ]
    environment = {"PYTHONPATH": str(find_llamacpp())}
    return Server(command, f"http://127.0.0.1:{port}", folder / "python.log", environment)
