"""A gateway over some servers of llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    model: Path, folder: Path, num_servers: int, **failures: float
) -> Iterator[Service]:
    """Start all of it, with these settings of `failures`; ends it on exit."""
    servers = [llama_server(model, folder, f"s{i}") for i in range(num_servers)]
    entries = [
        {"url": one.url, "name": f"s{i}", "dialect": "llamacpp", "max_in_flight": NUM_SLOTS}
        for i, one in enumerate(servers)
    ]
    try:
        for server in servers:
            server.start()
        changed = {"failures": {**QUICK["failures"], **failures}, "replicas": entries}
        with start_gateway(folder, {**QUICK, **changed}) as gateway:
            gateway.wait_ready(num_servers, within_s=120)
            yield Service(gateway, servers)
    finally:
        for server in servers:
            server.kill()
