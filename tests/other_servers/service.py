"""A gateway over servers of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.fleet import merged
from chaos.gateway_process import GatewayProcess, start_gateway

from other_servers.llamacpp import NUM_SLOTS, Server, llama_server

QUICK: dict[str, Any] = {
    "engine": {"replicas": 0},
    "fleet": {"poll_period_s": 0.2, "poll_timeout_s": 2.0, "load_period_s": 0.3},
    "failures": {"max_open_s": 1, "silence_s": 2.0, "first_silence_s": 30.0},
    "server": {"lame_duck_s": 0, "workers": 1},
}
"""Settings with which the gateway notices within seconds that a server is gone or hangs."""


@dataclass
class Service:
    """A gateway and its servers, which may be killed and paused."""

    gateway: GatewayProcess
    servers: list[Server]


@contextmanager
def start_service(
    folder: Path,
    servers: Sequence[Server],
    entry: dict[str, Any],
    changes: dict[str, Any] | None = None,
) -> Iterator[Service]:
    """Start all of it; ends it on exit. `entry` has further fields of each replica's entry, and
    `changes` are made to `QUICK`."""
    entries = [{"url": one.url, "name": f"s{i}", **entry} for i, one in enumerate(servers)]
    try:
        for server in servers:
            server.start()
        config = {**merged(QUICK, changes or {}), "replicas": entries}
        with start_gateway(folder, config) as gateway:
            gateway.wait_ready(len(servers), within_s=120)
            yield Service(gateway, list(servers))
    finally:
        for server in servers:
            server.kill()


@contextmanager
def start_llama_servers(
    model: Path, folder: Path, num_servers: int, **failures: float
) -> Iterator[Service]:
    """The same with llama.cpp's server, and with these settings of `failures`."""
    servers = [llama_server(model, folder, f"s{i}") for i in range(num_servers)]
    entry = {"dialect": "llamacpp", "max_in_flight": NUM_SLOTS}
    with start_service(folder, servers, entry, {"failures": failures}) as service:
        yield service
