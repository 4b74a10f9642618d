"""`vllm serve` with `--scheduler-cls`, as a user of vLLM starts it, on a Unix socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from paceline import demo
from paceline.foundation.servers.governor_channel import address_of
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.layout import LayoutSettings, choose_layout

MODEL = "tiny"
MAX_MODEL_LEN = 512
MAX_DRAFT_LENGTH = 4
READY_WITHIN_S = 400.0
_KV_CACHE_BYTES = 256 * 1024**2
"""At least 32,000 tokens of the bundled pair, of which requests take 4,096; the start zeroes it."""


@dataclass(frozen=True, slots=True)
class VllmServer:
    """A running server."""

    process: subprocess.Popen[bytes]
    """The leader of its process group."""
    socket: Path
    control_socket: Path
    """The abstract address that the plugin chooses by itself."""
    log: Path

    def client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(base_url="http://engine", transport=transport, timeout=60)

    def control(self, **request: Any) -> dict[str, Any]:
        """One exchange on the governor's control channel."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(self.control_socket))
            channel.sendall(json.dumps(request).encode() + b"\n")
            with channel.makefile("rb") as answers:
                return dict(json.loads(answers.readline()))


@contextmanager
def serve_vllm(folder: Path) -> Iterator[VllmServer]:
    """Start a server; killed at the end if it still runs.

    In Paceline's thread layout; in vLLM's own, on two cores, streams stall for up to 2 s. With one
    compute thread: two wait for each other in every step while other engine tests compute on both
    cores. `paceline_server` starts an engine with the default number.
    """
    settings = LayoutSettings(num_threads=1, kv_cache_bytes=_KV_CACHE_BYTES)
    layout = choose_layout(read_hardware(), settings)
    log = folder / "engine.log"
    draft = {"method": "draft_model", "model": str(demo.draft_path())}
    policy = {"recording_file": str(folder / "r.jsonl"), "costs_folder": str(folder / "costs")}
    command = [
        *(str(Path(sys.executable).parent / "vllm"), "serve", str(demo.target_path())),
        *("--served-model-name", MODEL, "--uds", str(folder / "engine.sock"), *layout.vllm_args),
        *("--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", "8"),
        *("--speculative-config",
          json.dumps({**draft, "num_speculative_tokens": MAX_DRAFT_LENGTH})),
        *("--scheduler-cls", "paceline.engine.AdaptiveScheduler"),
        *("--additional-config", json.dumps({"paceline": policy})),
        # so small a model would fill a JSON answer with blanks to its last token
        *("--structured-outputs-config",
          json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})),
    ]  # fmt: skip
    environment = {
        **os.environ,
        **layout.environment,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    control_socket = Path(address_of(process.pid))
    server = VllmServer(process, folder / "engine.sock", control_socket, log)
    try:
        _wait_until_healthy(server)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_healthy(server: VllmServer) -> None:
    deadline_s = time.monotonic() + READY_WITHIN_S
    with server.client() as client:
        while True:
            assert server.process.poll() is None, server.log.read_text()[-3000:]
            with suppress(httpx.TransportError):
                if client.get("/health").status_code == 200:
                    return
            assert time.monotonic() < deadline_s, server.log.read_text()[-3000:]
            # sleep: the pause between two looks decides nothing
            time.sleep(0.1)
