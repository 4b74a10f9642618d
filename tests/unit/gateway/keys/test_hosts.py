"""Only names that no web page of another site can have pass the check of the Host header."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.keys.hosts import is_trusted_host


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000",
        "10.1.2.3:80", "llm.internal", "LLM.Internal:8000", "localhost:", "LOCALHOST",
        " localhost\t",
        "[::ffff:127.0.0.1]:8000", "[fe80::1%eth0]:8000", "[fe80::1%25eth0]",
    ],
)  # fmt: skip
def test_trusted(host: str) -> None:
    assert is_trusted_host(host, {"llm.internal"})


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io",
        "[evil]", "x.llm.internal", "127.0.0.1@evil.example", "0x7f000001",
        "[localhost].evil.example", "[localhost]", "[llm.internal]", "[llm.internal].evil.example",
        "[::1].evil.example", "[::1].evil.example:8000", "[::1]evil", "[::1]:8000.evil.example",
        "[[::1]]", "[::1", "::1]", "::1", "[127.0.0.1]", "[127.0.0.1].evil.example",
        "[::1%eth0].evil.example", "[::1%]", "[::1%a]b]", "localhost]", "]localhost",
        "localhost:80@evil.example", "user@localhost", "user:localhost@evil.example",
        "localhost:abc", "localhost:80:evil.example", "localhost:-1", "localhost:999999",
        "localhost.", "llm.internal.", "localhost/evil.example", "localhost#evil.example",
        "localhost?evil.example", "localhost\\evil.example", "localhost, evil.example",
        "evil.example, localhost", "localhost evil.example", "evil.example localhost", "local host",
        "localhost\x00", "localhost\n", "localhost%00.evil.example", "127.0.0.1.evil.example",
        "127.1", "127.0.0.1.", "2130706433", "0177.0.0.1", "127.0.0.1,", "127.0.0.\xb9", "*", ".",
        ":", ":8000", "[]", "[]:8000", "http://localhost", "http://localhost/",
    ],
)  # fmt: skip
def test_not_trusted_unless_the_whole_header_is_a_host(host: str | None) -> None:
    assert not is_trusted_host(host, {"llm.internal"})
