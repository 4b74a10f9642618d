"""The addresses that commands assume are those of a server without settings."""

from __future__ import annotations

import pytest

from paceline.foundation.servers.default_addresses import ADMIN_PORT, DATA_PORT, at_port
from paceline.runtime.config import Settings


def test_the_ports_are_the_defaults_of_the_settings() -> None:
    server = Settings().server
    assert (server.port, server.admin_port) == (DATA_PORT, ADMIN_PORT)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://10.0.0.5:9000/v1", "http://10.0.0.5:8001"),
        ("https://[::1]:9000", "https://[::1]:8001"),
        ("http://gateway", "http://gateway:8001"),
    ],
)
def test_a_message_names_the_same_host(url: str, address: str) -> None:
    assert at_port(url, ADMIN_PORT) == address
