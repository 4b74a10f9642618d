"""The gateway serves both ports, also while it has no replicas."""

from __future__ import annotations

import socket
from dataclasses import replace

import httpx
import pytest

from paceline.runtime.gateway import PortTaken, serve_gateway
from paceline.runtime.gateway.http.listening import bind
from unit.gateway.conftest import SETTINGS, FixedReplicas


async def test_a_gateway_without_replicas_serves_health_and_an_empty_list() -> None:
    async with (
        serve_gateway(SETTINGS, FixedReplicas([])) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
    ):
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/ready")).status_code == 503
        assert (await http.get("/v1/models")).json() == {"object": "list", "data": []}


@pytest.mark.parametrize("port_name", ["port", "admin_port"])
async def test_an_offered_socket_of_another_address_is_not_used(port_name: str) -> None:
    """Without a key, for instance, the settings allow the admin port on loopback only."""
    sockets = {name: bind("127.0.0.1", 0, name) for name in ("port", "admin_port")}
    with bind("127.0.0.2", 0, port_name) as other:
        sockets[port_name].close()
        sockets[port_name] = other
        ports = {name: offered.getsockname()[1] for name, offered in sockets.items()}
        async with serve_gateway(
            replace(SETTINGS, **ports),
            FixedReplicas([]),
            sockets=(sockets["port"], sockets["admin_port"]),
        ) as gateway:
            assert {one.getsockname()[0] for one in gateway.sockets} == {"127.0.0.1"}
            assert {gateway.port, gateway.admin_port} == set(ports.values())
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", ports[port_name]), timeout=60)


async def test_offered_sockets_of_the_same_addresses_are_used() -> None:
    sockets = bind("127.0.0.1", 0, "port"), bind("127.0.0.1", 0, "admin_port")
    port, admin_port = (one.getsockname()[1] for one in sockets)
    settings = replace(SETTINGS, port=port, admin_port=admin_port)
    async with serve_gateway(settings, FixedReplicas([]), sockets=sockets) as gateway:
        assert gateway.sockets == sockets


async def test_an_address_that_only_the_old_process_can_use_is_explained() -> None:
    """The other process, which still serves, has the port on all addresses."""
    data = bind("127.0.0.1", 0, "port")
    with bind("0.0.0.0", 0, "admin_port") as admin:
        port, admin_port = data.getsockname()[1], admin.getsockname()[1]
        settings = replace(SETTINGS, port=port, admin_port=admin_port)
        with admin.dup(), pytest.raises(PortTaken, match=r"it at http://0\.0\.0\.0:\d+\.$"):
            async with serve_gateway(settings, FixedReplicas([]), sockets=(data, admin)):
                pass
