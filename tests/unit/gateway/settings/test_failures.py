"""Failure settings refuse values out of range."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.settings import FailureSettings


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"window_s": 0}, "window_s is 0; it must be more than 0 seconds"),
        ({"max_failure_fraction": 1.1}, "max_failure_fraction is 1.1; it must be from 0 to 1"),
        ({"max_failure_fraction": 0}, "without failures would be excluded"),
        ({"retry_reserve": -1}, "retry_reserve is -1; it must be at least 0"),
        ({"min_samples": 0}, "min_samples is 0; it must be at least 1"),
        ({"max_attempts": 0}, "max_attempts is 0; it must be at least 1"),
        ({"max_continuations": -1}, "max_continuations is -1; it must be at least 0"),
        ({"open_s": 40}, "max_open_s is 30.0; it must be at least open_s, 40"),
    ],
)
def test_failure_settings_out_of_range_are_refused(changes: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        FailureSettings(**changes)  # type: ignore[arg-type]
