"""The settings under the key "paceline" of vLLM's additional_config."""

from __future__ import annotations

import pytest

from paceline.engine.scheduler.settings import PluginSettings, parse_settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"paceline": 3}, "must be a JSON object"),
        ({"paceline": {"polcy": "off"}}, "unknown key 'polcy'; allowed keys: policy"),
        ({"paceline": {"policy": "best"}}, "policy is 'best'"),
        ({"paceline": {"draft_length": 9}}, "draft_length is 9; .* 0 .off. to 8"),
        ({"paceline": {"policy": "schedule"}}, "needs the parameter schedule: .*; set it in --add"),
        ({"paceline": {"schedule": 3}}, "schedule is 3; it must be a list; set it in --add"),
        ({"paceline": {"schedule": [3]}}, "schedule entry 3 must be three whole numbers"),
        ({"paceline": {"schedule": [[2, 3, 1]]}}, "must start at 1"),
        ({"paceline": {"control_socket": "here"}}, "absolute path"),
        ({"paceline": {"control_socket": "/" + "x" * 107}}, "at most 107"),
    ],
)
def test_wrong_settings_are_refused_with_a_message(given: object, message: str) -> None:
    """The message has the given value and the allowed ones."""
    with pytest.raises(ValueError, match=message):
        parse_settings(given, max_draft_length=8)


@pytest.mark.parametrize("given", [{}, None, {"other": 1}, {"paceline": {}}])
def test_missing_settings_have_defaults(given: object) -> None:
    """Policy goodput and no control channel; keys of other plugins are ignored."""
    assert parse_settings(given, max_draft_length=8) == PluginSettings(policy="goodput")


def test_every_setting_is_read() -> None:
    given = {
        "paceline": {
            "policy": "schedule",
            "draft_length": 2,
            "schedule": [[1, 4, 5], [5, 64, 0]],
            "control_socket": "/run/c.sock",
        }
    }
    assert parse_settings(given, max_draft_length=8) == PluginSettings(
        "schedule", 2, ((1, 4, 5), (5, 64, 0)), "/run/c.sock"
    )
