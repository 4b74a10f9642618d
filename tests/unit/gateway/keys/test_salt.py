"""The secret of the cache salts is created once; salts follow the formula and suit vLLM."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from paceline.runtime.gateway.keys.record import KeysUnusable
from paceline.runtime.gateway.keys.salt import read_or_create_secret, salt_of


def test_the_secret_is_created_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "salt"
    secret = read_or_create_secret(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_or_create_secret(path) == secret
    assert read_or_create_secret(tmp_path / "other") != secret
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other", "salt"]


def test_gateways_that_start_together_use_one_secret(tmp_path: Path) -> None:
    found: list[bytes] = []
    readers = [
        threading.Thread(target=lambda: found.append(read_or_create_secret(tmp_path / "salt")))
        for _ in range(16)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(found) == 16
    assert len(set(found)) == 1


@pytest.mark.parametrize("content", ["", "secret", "AB" * 32, "ab" * 33])
def test_a_file_with_other_content_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "salt"
    path.write_text(content)
    with pytest.raises(KeysUnusable, match="64 hexadecimal digits") as caught:
        read_or_create_secret(path)
    assert "secret" not in str(caught.value).replace("the secret of", "")


def test_a_secret_that_cannot_be_created_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match=r"set keys\.salt_file"):
        read_or_create_secret(tmp_path / "none" / "salt")


def test_salts_follow_the_formula_and_suit_vllm() -> None:
    """The expected value is from: printf acme | openssl dgst -sha256 -mac HMAC -macopt
    hexkey:00…00 -binary | base64, with - for + and _ for /."""
    assert salt_of(bytes(32), "acme") == "yafkdrrLv4fmDDC6JhJZW1oaC9HcsbqNvTfDC-H-yKg"
    for tenant in map(str, range(200)):
        salt = salt_of(b"k" * 32, tenant)
        assert len(salt) == 43
        assert not set(salt) & set("@/\\\0")  # vLLM 0.32 refuses these
