"""Numbers are rounded for readers and carry units."""

from __future__ import annotations

import pytest

from paceline.foundation.results.text import duration_ms, number, percent, plural, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.6, "1,235"),
        (99.96, "100"),
        (8.0, "8"),
        (0.01234, "0.0123"),
        (0, "0"),
        (None, "unknown"),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_durations_from_a_second_on_are_in_seconds() -> None:
    assert duration_ms(999.4) == "999 ms"
    assert duration_ms(1500.0) == "1.5 s"
    assert duration_ms(None) == "unknown"


def test_percentages_and_counts() -> None:
    assert percent(0.031, signed=True) == "+3.1 %"
    assert percent(None) == "unknown"
    assert plural(1, "request") == "1 request"
    assert plural(2000, "request") == "2,000 requests"


def test_values_of_settings_are_escaped() -> None:
    assert value_text({"a<b": [1, True, None]}) == (
        'a&lt;b: 1, yes, <span class="quiet">none</span>'
    )
