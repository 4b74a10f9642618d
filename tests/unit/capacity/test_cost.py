"""Worked examples of bills and paybacks."""

from __future__ import annotations

import pytest

from paceline.foundation.capacity.cost import (
    Payback,
    monthly_usd,
    usd_per_million_of_load,
    usd_per_million_tokens,
)


def test_an_hour_of_a_machine_divided_by_its_tokens() -> None:
    """8 USD an hour and 2,000 tokens/s are 7.2 million tokens for 8 USD."""
    assert usd_per_million_tokens(8.0, 2000.0) == pytest.approx(8 / 7.2)


def test_a_month_has_730_hours() -> None:
    assert monthly_usd(10.0) == 7300.0


def test_a_plan_that_costs_more_is_never_paid_back() -> None:
    payback = Payback(1000.0, 1500.0, 200.0)
    assert payback.saved_usd_per_month == -500.0
    assert payback.months is None


def test_a_change_without_cost_pays_back_at_once() -> None:
    assert Payback(1000.0, 500.0, 0.0).months == 0.0


def test_a_bill_over_the_tokens_of_its_load() -> None:
    """One million tokens a day are 30.4 million in the mean month of 730 hours."""
    assert usd_per_million_of_load(365.0, 1e6) == pytest.approx(12.0)
