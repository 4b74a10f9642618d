"""Start, query and stop `paceline serve` in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from polling import wait_until
from serve_options import free_ports_but

HTTP = httpx.Client(timeout=60, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
"""Shared by all queries of the tests: creating a client takes 30 ms."""
_PROGRAM = """
import asyncio, pathlib, signal
from paceline.cli import main

def write_num_tasks(*_):
    pathlib.Path("{tasks}").write_text(str(len(asyncio.all_tasks())))

signal.signal(signal.SIGUSR1, write_num_tasks)
main()
"""
"""The command, which also writes its number of asyncio tasks to a file on SIGUSR1: no route of the
gateway reports it."""
_ADDRESSES = re.compile(r"serving .* on (\S+) \(admin (\S+)\)")


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A running gateway, with or without engines of its own."""

    process: subprocess.Popen[str]
    url: str
    admin_url: str
    log: Path
    """The file with its standard error."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def accepts_connections(self) -> bool:
        """Whether a process accepts connections on the data port."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=60):
                return True
        except OSError:
            return False

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, by name with labels."""
        samples = {}
        for line in HTTP.get(f"{self.admin_url}/metrics").text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def replicas(self) -> list[dict[str, Any]]:
        answer = HTTP.get(f"{self.admin_url}/admin/replicas")
        found: list[dict[str, Any]] = answer.json()["replicas"]
        return found

    @property
    def num_in_flight(self) -> int:
        """Open leases on all replicas."""
        return sum(replica["in_flight"] for replica in self.replicas())

    @property
    def queue_length(self) -> int:
        """Requests in the admission queues of all models."""
        name = "paceline_admission_queue_length{"
        return int(sum(n for sample, n in self.metrics().items() if sample.startswith(name)))

    def wait_ready(self, num_replicas: int, within_s: float) -> float:
        """Wait until at least `num_replicas` are ready; returns the seconds waited."""
        start_s = time.monotonic()
        while sum(replica["state"] == "ready" for replica in self.replicas()) < num_replicas:
            if time.monotonic() - start_s > within_s:
                raise TimeoutError(
                    f"fewer than {num_replicas} replicas ready within {within_s:g} s: "
                    f"{self.replicas()}"
                )
            # sleep: the pause between two looks decides nothing
            time.sleep(0.05)
        return time.monotonic() - start_s

    def rss_bytes(self) -> int:
        return psutil.Process(self.pid).memory_info().rss

    def num_tasks(self) -> int:
        """The number of tasks in the gateway's event loop."""
        file = self.log.with_name("tasks")
        file.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        return int(wait_until(lambda: file.exists() and file.read_text()))

    def num_fds(self) -> int:
        return psutil.Process(self.pid).num_fds()


@contextlib.contextmanager
def start_gateway(
    folder: Path,
    config: dict[str, Any],
    *arguments: str,
    ready_within_s: float = 60.0,
    cwd: Path | None = None,
    program: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[GatewayProcess]:
    """Start a gateway with this configuration; stops it on exit if it still runs.

    `program` is Python code that runs the command in another way. `environment` is added to this
    process's.
    """
    file = folder / "paceline.yaml"
    file.write_text(yaml.safe_dump(config))
    log = folder / "stderr"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", program or _PROGRAM.format(tasks=folder / "tasks")),
                "serve",
                *("--config", str(file), *free_ports_but(arguments), *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=cwd or folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PACELINE_ENGINE__LOG_FOLDER": str(folder),
                **(environment or {}),
            },
        )
    try:
        line = _first_line(process, ready_within_s)
        found = _ADDRESSES.search(line)
        if not found:
            raise RuntimeError(f"{line}{log.read_text()}")
        yield GatewayProcess(process, found[1], found[2], log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # without the lame-duck time of SIGTERM
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


def _first_line(process: subprocess.Popen[str], within_s: float) -> str:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], within_s)[0]:
        return f"the gateway printed nothing within {within_s:g} s\n"
    return process.stdout.readline()
