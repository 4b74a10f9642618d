"""Prices per token and per month from measured throughput and the price of the machines.

    usable rate = measured rate * utilization
    $ per 1M tokens = $ per hour / (tokens per hour / 1,000,000)
    groups = ceil(peak requests per second / usable requests per second)
    $ per month = groups * $ per hour * 730
    $ per 1M tokens of a load = $ per month / (tokens of the load per month / 1,000,000)

A group is what was measured: one or more machines that serve together. Utilization is the largest
fraction of the measured rate that a group may carry, at the peak of the load; the rest is headroom.
The first price holds while the groups carry that fraction; a load whose mean lies below its peak
pays the second. Linear scaling over groups is assumed. Prices are in US dollars; nothing but the
machines is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.foundation.capacity.cost import (
    SECONDS_PER_DAY,
    monthly_usd,
    usd_per_million_of_load,
    usd_per_million_tokens,
)


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """What one group did in the measured window."""

    output_tokens_per_s: float
    total_tokens_per_s: float
    """Prompt and output tokens."""
    requests_per_s: float

    def __post_init__(self) -> None:
        if not (
            0 < self.output_tokens_per_s <= self.total_tokens_per_s < math.inf
            and 0 < self.requests_per_s < math.inf
        ):
            raise ValueError(
                f"rates are {self.output_tokens_per_s} output and {self.total_tokens_per_s} total "
                f"tokens/s, {self.requests_per_s} requests/s; they must be above 0 and finite, and "
                "the total not below the output"
            )

    @property
    def output_tokens_per_request(self) -> float:
        """The mean."""
        return self.output_tokens_per_s / self.requests_per_s


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars, while a group carries its usable rate."""

    usd_per_million_output_tokens: float
    """All of the price is put on output tokens."""
    usd_per_million_total_tokens: float
    """The price is spread over prompt and output tokens alike."""
    usd_per_thousand_requests: float


@dataclass(frozen=True, slots=True)
class MonthlyCost:
    """The machines that a load needs."""

    requests_per_s: float
    peak_requests_per_s: float
    num_groups: int
    usd_per_month: float
    peak_utilization_fraction: float
    """Of the measured rate of all groups, at the peak."""
    mean_utilization_fraction: float
    """Of the measured rate of all groups, over the month."""
    usd_per_million_output_tokens: float
    """The bill over the output tokens of the load."""
    usd_per_million_total_tokens: float
    """The bill over the prompt and output tokens of the load."""


@dataclass(frozen=True, slots=True)
class Savings:
    """Against the baseline; negative where the baseline is cheaper."""

    fraction: float
    """Of the baseline's price per output token, both at their usable rates."""
    usd_per_million_output_tokens: float
    usd_per_month: float | None
    """None without a load."""


def token_prices(rates: MeasuredRates, usd_per_hour: float, utilization: float) -> TokenPrices:
    """The prices per token of a group that costs `usd_per_hour`.

    >>> token_prices(MeasuredRates(1000.0, 4000.0, 5.0), usd_per_hour=3.6, utilization=1.0)
    ... # doctest: +NORMALIZE_WHITESPACE
    TokenPrices(usd_per_million_output_tokens=1.0, usd_per_million_total_tokens=0.25,
    usd_per_thousand_requests=0.2)
    """
    _check(usd_per_hour, utilization)

    def usd_per_million(rate_per_s: float) -> float:
        return usd_per_million_tokens(usd_per_hour, rate_per_s * utilization)

    return TokenPrices(
        usd_per_million_output_tokens=usd_per_million(rates.output_tokens_per_s),
        usd_per_million_total_tokens=usd_per_million(rates.total_tokens_per_s),
        usd_per_thousand_requests=usd_per_million(rates.requests_per_s) / 1e3,
    )


def monthly_cost(
    rates: MeasuredRates,
    usd_per_hour: float,
    utilization: float,
    requests_per_day: float,
    peak_factor: float,
) -> MonthlyCost:
    """The groups that carry `requests_per_day`, whose peak is `peak_factor` times its mean.

    The requests are as long as the measured ones.

    >>> monthly_cost(MeasuredRates(1000.0, 4000.0, 5.0), 3.6, 1.0, 864_000, 2.0).num_groups
    4
    """
    _check(usd_per_hour, utilization)
    if not (0 < requests_per_day < math.inf and 1 <= peak_factor < math.inf):
        raise ValueError(
            f"requests per day are {requests_per_day} and the peak factor is {peak_factor}; the "
            "first must be above 0, the second at least 1, both finite"
        )
    mean = requests_per_day / SECONDS_PER_DAY
    peak = mean * peak_factor
    # 1e-9: a load that fits exactly needs no further group for a rounding error.
    num_groups = max(1, math.ceil(peak / (rates.requests_per_s * utilization) - 1e-9))
    usd_per_month = monthly_usd(num_groups * usd_per_hour)
    usd_per_million_requests = usd_per_million_of_load(usd_per_month, requests_per_day)
    return MonthlyCost(
        requests_per_s=mean,
        peak_requests_per_s=peak,
        num_groups=num_groups,
        usd_per_month=usd_per_month,
        peak_utilization_fraction=peak / (num_groups * rates.requests_per_s),
        mean_utilization_fraction=mean / (num_groups * rates.requests_per_s),
        usd_per_million_output_tokens=(
            usd_per_million_requests * rates.requests_per_s / rates.output_tokens_per_s
        ),
        usd_per_million_total_tokens=(
            usd_per_million_requests * rates.requests_per_s / rates.total_tokens_per_s
        ),
    )


def savings(
    prices: TokenPrices,
    baseline: TokenPrices,
    monthly: MonthlyCost | None,
    baseline_monthly: MonthlyCost | None,
) -> Savings:
    """What the measured server saves against the baseline."""
    saved = baseline.usd_per_million_output_tokens - prices.usd_per_million_output_tokens
    return Savings(
        fraction=saved / baseline.usd_per_million_output_tokens,
        usd_per_million_output_tokens=saved,
        usd_per_month=(
            baseline_monthly.usd_per_month - monthly.usd_per_month
            if monthly is not None and baseline_monthly is not None
            else None
        ),
    )


def _check(usd_per_hour: float, utilization: float) -> None:
    if not 0 < usd_per_hour < math.inf:
        raise ValueError(f"the price is {usd_per_hour} $/hour; it must be above 0 and finite")
    if not 0 < utilization <= 1:
        raise ValueError(f"utilization is {utilization}; it must be above 0 and at most 1")
