"""Money: prices per token and per load, monthly bill, payback against what is paid at present."""

from __future__ import annotations

from dataclasses import dataclass

HOURS_PER_MONTH = 730.0
"""365 days of 24 hours over 12 months."""
DAYS_PER_MONTH = HOURS_PER_MONTH / 24
SECONDS_PER_DAY = 86_400.0


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: float) -> float:
    """Cost of a million tokens at a steady rate.

    >>> usd_per_million_tokens(3.6, 1000.0)
    1.0
    """
    return usd_per_hour / (tokens_per_s * 3600.0) * 1e6


def monthly_usd(usd_per_hour: float) -> float:
    """Bill of a month of continuous use.

    >>> monthly_usd(2.0)
    1460.0
    """
    return usd_per_hour * HOURS_PER_MONTH


def usd_per_million_of_load(usd_per_month: float, units_per_day: float) -> float:
    """The bill of a month over what a load uses in it, in millions; units are tokens or requests.

    >>> usd_per_million_of_load(730.0, 24e6)  # 730 million a month
    1.0
    """
    return usd_per_month / (units_per_day * DAYS_PER_MONTH) * 1e6


@dataclass(frozen=True, slots=True)
class Payback:
    """A change of the monthly bill."""

    present_usd_per_month: float
    planned_usd_per_month: float
    one_time_usd: float
    """Work and hardware that the change needs."""

    @property
    def saved_usd_per_month(self) -> float:
        """Negative where the plan costs more."""
        return self.present_usd_per_month - self.planned_usd_per_month

    @property
    def months(self) -> float | None:
        """Months until the saving has paid for the change; None where nothing is saved.

        >>> Payback(10_000.0, 6_000.0, 20_000.0).months
        5.0
        """
        if self.saved_usd_per_month <= 0:
            return None
        return self.one_time_usd / self.saved_usd_per_month
