"""Gateway settings refuse values out of range, and match the configuration's defaults."""

from __future__ import annotations

import pytest

from paceline.runtime.config import Settings
from paceline.runtime.gateway import GatewaySettings
from paceline.runtime.gateway.settings import JsonLimits
from paceline.runtime.serve.plan import gateway_settings


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"port": 70_000}, "port is 70000; it must be from 0 to 65535"),
        ({"max_choices": 0}, "max_choices is 0; it must be at least 1"),
        ({"stall_timeout_s": 0}, "stall_timeout_s is 0; it must be more than 0"),
        ({"retry_after_s": 121}, "it must be from 1 to 120"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GatewaySettings(**changes)  # type: ignore[arg-type]


def test_configuration_without_changes_gives_the_gateway_its_own_defaults() -> None:
    """Both state them, because the configuration imports no part of the system."""
    assert gateway_settings(Settings()) == GatewaySettings()


def test_sections_of_the_configuration_reach_the_gateway() -> None:
    given = Settings.model_validate(
        {"failures": {"max_attempts": 5}, "admission": {"max_queue": 7}}
    )
    assert gateway_settings(given).failures.max_attempts == 5
    assert gateway_settings(given).admission.max_queue == 7


def test_more_json_values_allow_more_keys_and_containers() -> None:
    """600 tools of 15 keys each need 22,000 keys with a conversation; fewer values change none."""
    assert GatewaySettings().json_limits == JsonLimits()
    double = GatewaySettings(max_json_values=2 * 262_144).json_limits
    assert (double.max_keys, double.max_containers) == (40_000, 40_000)
    assert GatewaySettings(max_json_values=1024).json_limits == JsonLimits(max_values=1024)
