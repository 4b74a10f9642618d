"""Settings of the gateway's parts: what they refuse, and what the configuration makes of them."""

from __future__ import annotations

import doctest
import importlib

import pytest

from paceline.config import Settings
from paceline.gateway import GatewaySettings
from paceline.gateway.settings import FailureSettings
from paceline.serve.plan import gateway_settings


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"window_s": 0}, "window_s is 0; it must be more than 0 seconds"),
        ({"max_failure_fraction": 1.1}, "max_failure_fraction is 1.1; allowed are 0 to 1"),
        ({"max_failure_fraction": 0}, "without failures would be out"),
        ({"retry_reserve": -1}, "retry_reserve is -1; it must be at least 0"),
        ({"min_samples": 0}, "min_samples is 0; it must be at least 1"),
        ({"max_attempts": 0}, "max_attempts is 0; 1 tries once"),
        ({"max_continuations": -1}, "max_continuations is -1; 0 continues nothing"),
        ({"open_s": 40}, "max_open_s is 30.0; it must be at least open_s, 40"),
    ],
)
def test_failure_settings_out_of_range_are_refused(changes: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        FailureSettings(**changes)  # type: ignore[arg-type]


def test_configuration_without_changes_gives_the_gateway_its_own_defaults() -> None:
    """Both state them, since the configuration knows no part; they must not drift apart."""
    assert gateway_settings(Settings()) == GatewaySettings()


def test_sections_of_the_configuration_reach_the_gateway() -> None:
    given = Settings.model_validate(
        {"failures": {"max_attempts": 5}, "admission": {"max_queue": 7}}
    )
    assert gateway_settings(given).failures.max_attempts == 5
    assert gateway_settings(given).admission.max_queue == 7


@pytest.mark.parametrize(
    "module",
    [
        "admission.queue_forecast",
        "routing.breaker",
        "routing.stall_detection",
        "proxy.retry_budget",
        "sliding_sum",
    ],
)
def test_examples_in_docstrings_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"paceline.gateway.{module}"))
    assert result.attempted
    assert not result.failed
