"""Admission settings refuse values out of range."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.settings import AdmissionSettings


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"max_in_flight": 0}, "max_in_flight is 0; it must be at least 1"),
        ({"max_tokens_in_flight": 0}, "max_tokens_in_flight is 0; it must be at least 1"),
        ({"max_queue": -1}, "max_queue is -1; it must be at least 0"),
        ({"max_queue_wait_s": 0}, "max_queue_wait_s is 0; it must be more than 0"),
        ({"max_deadline_s": 0}, "max_deadline_s is 0; it must be more than 0"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, float], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        AdmissionSettings(**changes)  # type: ignore[arg-type]
