"""Opening a port that is in use fails with a message that names the setting."""

from __future__ import annotations

import socket

import pytest

from paceline.gateway import GatewaySettings, PortTaken, serve_gateway
from unit.gateway.conftest import FixedReplicas


async def test_a_taken_port_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = GatewaySettings(port=port, admin_port=0)
        with pytest.raises(PortTaken, match=f"Port {port} on 127.0.0.1 cannot be opened"):
            async with serve_gateway(settings, FixedReplicas([])):
                pass
