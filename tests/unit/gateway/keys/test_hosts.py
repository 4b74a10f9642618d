"""Only names that no web page of another site can have pass the check of the Host header."""

from __future__ import annotations

import pytest

from paceline.gateway.keys.hosts import is_trusted_host


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000",
        "10.1.2.3:80", "llm.internal", "LLM.Internal:8000",
    ],
)  # fmt: skip
def test_trusted(host: str) -> None:
    assert is_trusted_host(host, {"llm.internal"})


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io",
        "[evil]", "x.llm.internal", "127.0.0.1@evil.example", "0x7f000001",
    ],
)  # fmt: skip
def test_not_trusted(host: str | None) -> None:
    assert not is_trusted_host(host, {"llm.internal"})
