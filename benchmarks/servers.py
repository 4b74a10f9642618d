"""How do the servers of a benchmark start, when are they ready, and how do they end?

Each in a session of its own on two free ports, with its output in a file. What is asked of them,
and what counts, is the benchmark's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
_LAST_CHARS = 2000
"""Of the log of a server that did not start: its folder may be gone with this process."""
IDLE_WATCH_S = 3.0
MAX_IDLE_CORES = 0.05
"""Above it an idle server disturbs the one under load; chosen by hand."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and where it listens."""

    name: str
    process: subprocess.Popen[bytes]
    url: str
    admin_url: str
    log: Path


def start_server(name: str, plan: Mapping[str, Any], log_folder: Path) -> Server:
    """Start it in a session of its own on two free ports; its output goes to a file."""
    port = free_port_pair()
    admin_port = port + 1
    command = [
        word.replace("{port}", str(port)).replace("{admin_port}", str(admin_port))
        for word in plan["command"]
    ]
    log = log_folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": _search_path(), **plan.get("env", {})},
            start_new_session=True,
        )
    address = "http://127.0.0.1"
    return Server(name, process, f"{address}:{port}", f"{address}:{admin_port}", log)


def _search_path() -> str:
    """PATH with this interpreter's folder first: `paceline` is the one installed beside it."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


async def wait_until_ready(server: Server, session: aiohttp.ClientSession) -> None:
    """Return once it can serve; raise when it ends or takes too long.

    Paceline says so under /ready; a bare vLLM has no such route and lists its models once it can.
    """
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if (code := server.process.poll()) is not None:
            last_words = server.log.read_text(errors="replace")[-_LAST_CHARS:]
            raise RuntimeError(
                f"server {server.name} ended with {code}; see {server.log}:\n{last_words}"
            )
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            status = await _status(session, f"{server.url}/ready")
            if status == 404:
                status = await _status(session, f"{server.url}/v1/models")
            if status == 200:
                return
        await asyncio.sleep(0.5)
    raise RuntimeError(f"server {server.name} was not ready in {START_TIMEOUT_S:g} s")


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        return response.status


def stop_server(server: Server) -> None:
    """Ask it to end, then make sure of every process it started."""
    family = descendants(server)
    server.process.terminate()
    try:
        server.process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def descendants(server: Server) -> list[psutil.Process]:
    try:
        return psutil.Process(server.process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def cpu_time_s(server: Server) -> float:
    """CPU time so far of the server and all its descendants."""
    total_s = 0.0
    for process in [psutil.Process(server.process.pid), *descendants(server)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total_s += times.user + times.system
    return total_s


def watch_idle(servers: Sequence[Server]) -> dict[str, float]:
    """Cores that each server burns while nobody asks it anything."""
    before_s = {server.name: cpu_time_s(server) for server in servers}
    time.sleep(IDLE_WATCH_S)
    return {s.name: (cpu_time_s(s) - before_s[s.name]) / IDLE_WATCH_S for s in servers}


def free_port_pair() -> int:
    """A free port whose successor is free too.

    The bench looks for counters on the port after the data port: it must not be another server's.
    """
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise RuntimeError("no two neighbouring ports of 127.0.0.1 are free")


@contextlib.contextmanager
def running_server(name: str, plan: Mapping[str, Any], log_folder: Path) -> Iterator[Server]:
    """One server, ready; ended on leaving, also when it does not become ready."""
    print(f"starting {name}: {' '.join(plan['command'])}", flush=True)
    server = start_server(name, plan, log_folder)
    try:
        asyncio.run(_ready(server))
        yield server
    finally:
        stop_server(server)


@contextlib.contextmanager
def running_servers(plan: Mapping[str, Any], log_folder: Path) -> Iterator[dict[str, Server]]:
    """Every server of the plan, started one after the other; all ended on leaving."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(running_server(name, server_plan, log_folder))
            for name, server_plan in plan["servers"].items()
        }


async def _ready(server: Server) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        await wait_until_ready(server, session)
