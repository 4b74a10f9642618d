"""Requests to the admin port: a key for this machine goes to no proxy."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import click
import pytest

from paceline.foundation.servers.admin_request import send_to_admin


@pytest.fixture
def requests() -> Iterator[tuple[int, list[str]]]:
    """The port of a server, and the targets of what it receives."""
    received: list[str] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"swap": null}')

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, received
        server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_this_machine_is_asked_directly(
    host: str, requests: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    port, received = requests
    url = f"http://{host}:{port}"
    answer = send_to_admin("GET", "/admin/draft", None, admin_url=url, admin_key="secret")
    assert answer == {"swap": None}
    assert received == ["/admin/draft"]


def test_other_machines_are_asked_through_the_proxy(
    requests: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, received = requests
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "")
    url = "http://gateway.example:8001"
    send_to_admin("GET", "/admin/draft", None, admin_url=url, admin_key=None)
    assert received == ["http://gateway.example:8001/admin/draft"]


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:x", "127.0.0.1:8001"])
def test_a_wrong_url_is_an_error_without_a_traceback(url: str) -> None:
    with pytest.raises(click.ClickException, match="--admin-url"):
        send_to_admin("GET", "/admin/draft", None, admin_url=url, admin_key=None)
