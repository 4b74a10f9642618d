"""Validation and canonical form of `ReplicaEntry`."""

from __future__ import annotations

import doctest
import re

import pytest

from paceline.runtime.gateway.settings import names
from paceline.runtime.gateway.settings.replica_entry import ReplicaEntry


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("http://GPU-1:8000", "http://gpu-1:8000"),
        ("http://gpu-1:80/", "http://gpu-1"),
        ("https://gpu-1:443", "https://gpu-1"),
        ("https://gpu-1:80", "https://gpu-1:80"),
        ("http://[FD00::1]:8000", "http://[fd00::1]:8000"),
    ],
)
def test_urls_have_one_canonical_form(given: str, canonical: str) -> None:
    assert ReplicaEntry(url=given).url == canonical


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either url"),
        ({"url": "http://a:1", "dns": "a:1"}, "either url"),
        ({"url": "a:1"}, "http://host:port"),
        ({"url": "ftp://a"}, "http://host:port"),
        ({"url": "http://"}, "http://host:port"),
        ({"url": "http://a:99999"}, "1 to 65535"),
        ({"url": "http://a:1/v1"}, "leave out everything after"),
        ({"url": "http://a:1/?x=1"}, "leave out everything after"),
        ({"url": "http://me:secret@a:1"}, "set an API key with key_file"),
        ({"dns": "a"}, "host:port"),
        ({"dns": "a:0"}, "1 to 65535"),
        ({"dns": "http://a:1"}, "host:port"),
        ({"dns": "a:b"}, "host:port"),
        ({"dns": "a:1", "name": "two words"}, "letters, digits"),
        ({"dns": "a:1", "name": ""}, "letters, digits"),
        ({"dns": "a:1", "model": ""}, "model is empty"),
        ({"dns": "a:1", "dialect": "ollama"}, "vllm, sglang, trtllm"),
        ({"dns": "a:1", "key": ""}, "must be one word"),
        ({"dns": "a:1", "key": "two words"}, "must be one word"),
        ({"dns": "a:1", "key": "a\r\nx-evil: 1"}, "not allowed in an HTTP header"),
        ({"dns": "a:1", "max_in_flight": 0}, "at least 1"),
        ({"dns": "a:1", "max_in_flight": 10**30}, "at most 1,000,000"),
        ({"dns": "a:1", "max_tokens_in_flight": 2**64}, "at most 1,000,000,000,000"),
        ({"dns": "a:1", "key": "k" * 5000}, "at most 4096"),
    ],
)  # fmt: skip
def test_wrong_entries_are_refused_with_a_reason(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        ReplicaEntry(**given)
    assert "secret" not in str(caught.value)


def test_a_key_is_not_shown() -> None:
    assert "s3cret" not in repr(ReplicaEntry(url="http://a", key="s3cret"))


def test_the_label_is_the_name_or_else_the_address() -> None:
    assert ReplicaEntry(url="http://gpu-1:8000").label == "gpu-1:8000"
    assert ReplicaEntry(dns="LLM.svc:8000").label == "llm.svc:8000"
    assert ReplicaEntry(url="http://gpu-1:8000", name="big").label == "big"
    assert ReplicaEntry(dns="llm.svc:8000").host_and_port == ("llm.svc", 8000)


@pytest.mark.parametrize(
    "text",
    ["", " m", "m ", "m\r\nx", "m\0", "m\x1b[2J", "m\u202eb", "m\ud800", "m\u2028n", "m" * 257],
)
@pytest.mark.parametrize("field", ["model", "revision"])
def test_a_name_has_printable_characters_and_not_too_many(field: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{field} .* printable characters") as caught:
        ReplicaEntry(url="http://a", **{field: text})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["org/Model-7B.Q4", "/models/a b.gguf", "模型", "m" * 256])
def test_names_in_use_are_accepted(text: str) -> None:
    assert ReplicaEntry(url="http://a", model=text).model == text


def test_examples_in_docstrings_run() -> None:
    result = doctest.testmod(names)
    assert result.attempted > 0
    assert result.failed == 0
