"""The host of an absolute target counts, and a head that could name two hosts is refused."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.gateway.http.request_head import InvalidHead, RequestHead, read_head
from unit.gateway.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOST = (b"host", b"localhost")


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"/a%2Fb?c=d", "/a/b", b"localhost"),
        (b"//evil.example/a", "//evil.example/a", b"localhost"),
        (b"*", "*", b"localhost"),
        (b"http://evil.example", "/", b"evil.example"),
        (b"http://evil.example?c", "/", b"evil.example"),
        (b"HTTPS://Evil.example:80/a", "/a", b"Evil.example:80"),
        (b"http://[::1]:8000/a", "/a", b"[::1]:8000"),
    ],
)
async def test_the_host_of_an_absolute_target_replaces_the_header(
    target: bytes, path: str, host: bytes
) -> None:
    head = read_head("1.1", target, [(b"a", b"b"), HOST])
    assert (head.path, dict(head.headers)) == (path, {b"a": b"b", b"host": host})


@pytest.mark.parametrize(
    "target",
    [
        b"http://user@localhost/", b"http://localhost@evil.example/", b"http://a:b@localhost/",
        b"ftp://localhost/", b"ws://localhost/", b"http:///a", b"localhost:80", b"foo:/a", b"a",
        b"", b"http://localhost:99999/", b"/\xff",
    ],
)  # fmt: skip
async def test_other_targets_are_refused(target: bytes) -> None:
    with pytest.raises(InvalidHead, match="target"):
        read_head("1.1", target, [HOST])


@pytest.mark.parametrize("others", [[HOST], [(b"host", b"evil.example")], [(b"host", b"")]])
@pytest.mark.parametrize("target", [b"/", b"http://localhost/"])
async def test_several_host_headers_are_refused(
    target: bytes, others: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(InvalidHead, match="more than one Host"):
        read_head("1.1", target, [HOST, (b"a", b"b"), *others])


async def test_a_request_without_a_host_is_not_changed() -> None:
    assert read_head("1.0", b"/a", []) == RequestHead("/a", b"/a", b"", [])


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0", "3.1"])
async def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(InvalidHead, match="is not served here"):
        read_head(version, b"/", [HOST])


REFUSED = [
    (b"GET http://evil.example%b HTTP/1.1\r\nhost: localhost\r\n", 403),
    (b"GET http://[localhost].evil.example%b HTTP/1.1\r\nhost: localhost\r\n", 400),
    (b"GET http://localhost@evil.example%b HTTP/1.1\r\nhost: localhost\r\n", 400),
    (b"GET %b HTTP/1.1\r\nhost: [localhost].evil.example\r\n", 403),
    (b"GET %b HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n", 400),
    (b"GET %b HTTP/1.1\r\nhost: evil.example\r\nHOST: localhost\r\n", 400),
    (b"GET %b HTTP/1.1\r\nhost: localhost, evil.example\r\n", 403),
    (b"GET %b HTTP/1.1\r\nhost:\r\n", 403),
    (b"GET %b HTTP/1.1\r\n", 403),
]
SERVED = [
    (b"GET http://localhost:1%b HTTP/1.1\r\nhost: evil.example\r\n", 200),
    (b"GET %b HTTP/1.1\r\nhost: localhost \r\n", 200),
]


@pytest.mark.parametrize(("head", "status"), [*REFUSED, *SERVED])
@pytest.mark.parametrize(
    ("port_name", "path"), [("port", b"/v1/models"), ("admin_port", b"/admin/replicas")]
)
async def test_both_ports_look_at_the_host_that_counts(
    shared: Served, port_name: str, path: bytes, head: bytes, status: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", getattr(shared.gateway, port_name))
    writer.write(head % path + b"connection: close\r\n\r\n")
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
