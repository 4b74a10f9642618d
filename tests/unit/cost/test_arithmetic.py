"""Worked examples of every formula."""

from __future__ import annotations

import math

import pytest

from paceline.workbench.cost.arithmetic import MeasuredRates, monthly_cost, savings, token_prices

RATES = MeasuredRates(output_tokens_per_s=2000, total_tokens_per_s=5000, requests_per_s=10)


def test_prices_per_token_and_request() -> None:
    """$7.20 an hour is $0.002 a second, for 2,000 output tokens: $1 per 1M. 10 requests: $0.2."""
    prices = token_prices(RATES, usd_per_hour=7.2, utilization=1.0)
    assert prices.usd_per_million_output_tokens == pytest.approx(1.0)
    assert prices.usd_per_million_total_tokens == pytest.approx(0.4)
    assert prices.usd_per_thousand_requests == pytest.approx(0.2)


def test_half_utilization_doubles_the_price() -> None:
    prices = token_prices(RATES, usd_per_hour=7.2, utilization=0.5)
    assert prices.usd_per_million_output_tokens == pytest.approx(2.0)


def test_an_h100_example() -> None:
    """$2.50 an hour, 2,500 output tokens/s: 9M tokens an hour, $0.2778 per 1M."""
    rates = MeasuredRates(2500, 10_000, 12.5)
    prices = token_prices(rates, usd_per_hour=2.5, utilization=1.0)
    assert prices.usd_per_million_output_tokens == pytest.approx(2.5 / 9)


def test_the_groups_that_a_peak_needs() -> None:
    """2,592,000 a day are 30/s, at the peak 60/s; a group carries 8/s: 7.5, so 8 groups.

    8 * $7.20 * 730 h = $42,048. The peak takes 60 of the 80/s that were measured.
    """
    monthly = monthly_cost(
        RATES, usd_per_hour=7.2, utilization=0.8, requests_per_day=2_592_000, peak_factor=2
    )
    assert monthly.requests_per_s == pytest.approx(30)
    assert monthly.num_groups == 8
    assert monthly.usd_per_month == pytest.approx(42_048)
    assert monthly.peak_utilization_fraction == pytest.approx(0.75)


def test_the_price_of_a_load_is_its_bill_over_its_tokens() -> None:
    """500,000 requests of 200 tokens a day are 3.0417B tokens in 730 h.

    The peak of 14.47/s needs 5 groups at 3/s each: 5 * $3.6 * 730 = $13,140. The mean of 5.787/s
    uses 5.787 / 25 of what was measured.
    """
    monthly = monthly_cost(
        MeasuredRates(1000, 4000, 5),
        usd_per_hour=3.6,
        utilization=0.6,
        requests_per_day=500_000,
        peak_factor=2.5,
    )
    assert monthly.usd_per_month == pytest.approx(13_140)
    assert monthly.usd_per_million_output_tokens == pytest.approx(13_140 / 3041.67, rel=1e-5)
    assert monthly.usd_per_million_total_tokens == pytest.approx(13_140 / 12_166.7, rel=1e-5)
    assert monthly.mean_utilization_fraction == pytest.approx(0.2315, abs=1e-4)


def test_a_load_that_always_uses_all_machines_costs_the_price_per_token() -> None:
    monthly = monthly_cost(RATES, 7.2, 0.5, requests_per_day=5 * 86_400, peak_factor=1)
    prices = token_prices(RATES, 7.2, 0.5)
    assert monthly.usd_per_million_output_tokens == pytest.approx(
        prices.usd_per_million_output_tokens
    )
    assert monthly.mean_utilization_fraction == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("requests_per_day", "num_groups"), [(1, 1), (864_000, 1), (864_001, 2), (1_728_000, 2)]
)
def test_a_load_that_fits_exactly_needs_no_further_group(
    requests_per_day: float, num_groups: int
) -> None:
    """A group carries 10/s, which are 864,000 a day."""
    monthly = monthly_cost(RATES, 7.2, 1.0, requests_per_day, peak_factor=1)
    assert monthly.num_groups == num_groups


def test_savings_against_a_baseline() -> None:
    """1.6 times the tokens on the same machine: $1.60 becomes $1, 37.5 % less.

    60/s need 6 groups instead of 10 (60 / 6.25 = 9.6): 4 * $7.20 * 730 = $21,024 a month.
    """
    slow = MeasuredRates(1250, 3125, 6.25)
    load = {"requests_per_day": 60 * 86_400, "peak_factor": 1.0}
    saved = savings(
        token_prices(RATES, 7.2, 1.0),
        token_prices(slow, 7.2, 1.0),
        monthly_cost(RATES, 7.2, 1.0, **load),
        monthly_cost(slow, 7.2, 1.0, **load),
    )
    assert saved.fraction == pytest.approx(0.375)
    assert saved.usd_per_million_output_tokens == pytest.approx(0.6)
    assert saved.usd_per_month == pytest.approx(21_024)


def test_a_dearer_server_has_negative_savings() -> None:
    saved = savings(token_prices(RATES, 14.4, 1.0), token_prices(RATES, 7.2, 1.0), None, None)
    assert saved.fraction == pytest.approx(-1.0)
    assert saved.usd_per_month is None


@pytest.mark.parametrize(
    ("usd_per_hour", "utilization", "message"),
    [
        (0.0, 1.0, "must be above 0"),
        (math.nan, 1.0, "the price is nan"),
        (math.inf, 1.0, "the price is inf"),
        (1.0, 0.0, "utilization is 0.0"),
        (1.0, 1.1, "at most 1"),
        (1.0, math.nan, "utilization is nan"),
    ],
)
def test_impossible_inputs_are_refused(
    usd_per_hour: float, utilization: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        token_prices(RATES, usd_per_hour, utilization)


def test_impossible_loads_and_rates_are_refused() -> None:
    with pytest.raises(ValueError, match=r"peak factor is 0\.5"):
        monthly_cost(RATES, 1.0, 1.0, 100, peak_factor=0.5)
    for requests_per_day, peak_factor in ((math.nan, 1.0), (100, math.nan), (math.inf, 1.0)):
        with pytest.raises(ValueError, match="both finite"):
            monthly_cost(RATES, 1.0, 1.0, requests_per_day, peak_factor)
    with pytest.raises(ValueError, match="they must be above 0"):
        MeasuredRates(0, 10, 1)
    for rates in ((math.nan, 10, 1), (1, math.inf, 1), (1, 10, math.nan), (1, 10, math.inf)):
        with pytest.raises(ValueError, match="above 0 and finite"):
            MeasuredRates(*rates)
    with pytest.raises(ValueError, match="not below the output"):
        MeasuredRates(10, 5, 1)
