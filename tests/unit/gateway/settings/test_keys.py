"""Key settings are consistent, and place the salt's secret next to the keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.gateway.settings import GatewaySettings, KeySettings


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [
        ("127.0.0.1", False), ("127.9.9.9", False), ("::1", False), ("localhost", False),
        ("0.0.0.0", True), ("::", True), ("10.0.0.7", True), ("gateway.internal", True), ("", True),
    ],
)  # fmt: skip
def test_an_admin_port_on_the_network_needs_a_key(host: str, is_refused: bool) -> None:
    keys = KeySettings(admin_key_file=Path("admin-keys"))
    assert GatewaySettings(admin_host=host, keys=keys).admin_host == host
    if is_refused:
        with pytest.raises(ValueError, match=r"there is no key for it; set keys\.admin_key_file"):
            GatewaySettings(admin_host=host)
    else:
        assert GatewaySettings(admin_host=host).admin_host == host


def test_metrics_cannot_need_a_key_without_an_admin_key_file() -> None:
    with pytest.raises(ValueError, match="there is no admin key"):
        KeySettings(metrics_need_key=True)


def test_the_secret_of_the_salts_is_next_to_the_keys_by_default() -> None:
    assert KeySettings(file=Path("a/keys")).salt_path == Path("a/keys.salt")
    assert KeySettings(file=Path("k"), salt_file=Path("s")).salt_path == Path("s")
    assert KeySettings().salt_path is None


def test_a_secret_that_would_separate_no_tenants_is_refused() -> None:
    with pytest.raises(ValueError, match=r"salt_file is set, .* set keys\.file too"):
        KeySettings(salt_file=Path("s"))
