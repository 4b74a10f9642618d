"""Start the servers of a benchmark, await their readiness, and stop them.

Each server runs in its own session on two free ports and writes its output to a file. The benchmark
decides what it sends and what it measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
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

from benchmarks.interruption import end_by_sigterm_too

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
_LAST_CHARS = 2000
"""Shown of the log of a server that did not start; the log folder may be temporary."""
IDLE_WATCH_S = 3.0
_ENVIRONMENT = {"PACELINE_SERVER__LAME_DUCK_S": "0"}
"""There is no load balancer that would have to notice the end of a server."""
MAX_IDLE_CORES = 0.05
"""Above it an idle server disturbs the one under load; chosen empirically."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and its addresses."""

    name: str
    process: subprocess.Popen[bytes]
    url: str
    admin_url: str
    log: Path


def start_server(name: str, plan: Mapping[str, Any], log_folder: Path) -> Server:
    """Start a server in its own session on two free ports; its output goes to a file."""
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
            env={**os.environ, **_ENVIRONMENT, "PATH": _search_path(), **plan.get("env", {})},
            start_new_session=True,
        )
    address = "http://127.0.0.1"
    return Server(name, process, f"{address}:{port}", f"{address}:{admin_port}", log)


def _search_path() -> str:
    """PATH with this interpreter's folder first, so that its own `paceline` is found."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


async def wait_until_ready(server: Server, session: aiohttp.ClientSession) -> None:
    """Return once the server can serve; RuntimeError when it exits or takes too long.

    Paceline answers on /ready; a bare vLLM has no such route, but lists its models once ready.
    """
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if (code := server.process.poll()) is not None:
            log_tail = server.log.read_text(errors="replace")[-_LAST_CHARS:]
            raise RuntimeError(
                f"server {server.name} exited with {code}; see {server.log}:\n{log_tail}"
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
    """Terminate the server, then kill every process it started that is left."""
    children = descendants(server)
    server.process.terminate()
    try:
        server.process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
    for process in children:
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


def proportional_memory_bytes(server: Server) -> int:
    """Memory of the server and all its descendants; of pages that several processes share, each
    has its part."""
    processes = [psutil.Process(server.process.pid), *descendants(server)]
    return sum(int(process.memory_full_info().pss) for process in processes)


def watch_idle(servers: Sequence[Server]) -> dict[str, float]:
    """The number of cores that each server uses while it has no request."""
    before_s = {server.name: cpu_time_s(server) for server in servers}
    time.sleep(IDLE_WATCH_S)
    return {s.name: (cpu_time_s(s) - before_s[s.name]) / IDLE_WATCH_S for s in servers}


def free_port_pair() -> int:
    """A free port whose successor is free too.

    The bench reads counters on the port after the data port, which must not be another server's.
    The system gives none of these ports to a program that asks for any, before the server has it.
    """
    for _ in range(100):
        port = random.randrange(20_000, 32_000, 2)
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise RuntimeError("no two consecutive ports of 127.0.0.1 are free")


@contextlib.contextmanager
def running_server(name: str, plan: Mapping[str, Any], log_folder: Path) -> Iterator[Server]:
    """One server, ready; stopped on exit, also by SIGTERM or when it does not become ready."""
    end_by_sigterm_too()
    print(f"starting {name}: {' '.join(plan['command'])}", flush=True)
    server = start_server(name, plan, log_folder)
    try:
        asyncio.run(_ready(server))
        yield server
    finally:
        stop_server(server)


@contextlib.contextmanager
def running_servers(plan: Mapping[str, Any], log_folder: Path) -> Iterator[dict[str, Server]]:
    """Every server of the plan, started one after the other; all stopped on exit."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(running_server(name, server_plan, log_folder))
            for name, server_plan in plan["servers"].items()
        }


async def _ready(server: Server) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        await wait_until_ready(server, session)
