"""Render a cost calculation: the JSON document, and lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from paceline.workbench.cost.arithmetic import (
    MonthlyCost,
    Savings,
    TokenPrices,
    monthly_cost,
    savings,
    token_prices,
)
from paceline.workbench.cost.assumptions import CostInputs, assumptions, warnings
from paceline.workbench.cost.measured import Measurement

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class CostReport:
    """All figures of one calculation."""

    inputs: CostInputs
    mine: Measurement
    baseline: Measurement | None
    prices: TokenPrices
    monthly: MonthlyCost | None
    baseline_prices: TokenPrices | None
    baseline_monthly: MonthlyCost | None
    savings: Savings | None


def calculate(inputs: CostInputs, mine: Measurement, baseline: Measurement | None) -> CostReport:
    """The figures from the inputs; ValueError for impossible inputs."""
    prices, monthly = _costs(inputs, mine, inputs.group_usd_per_hour)
    if baseline is None:
        return CostReport(inputs, mine, None, prices, monthly, None, None, None)
    theirs, their_monthly = _costs(inputs, baseline, inputs.baseline_group_usd_per_hour)
    saved = savings(prices, theirs, monthly, their_monthly)
    return CostReport(inputs, mine, baseline, prices, monthly, theirs, their_monthly, saved)


def render_document(report: CostReport) -> dict[str, Any]:
    """The document that `--json` writes. docs/cost.md describes its keys."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline cost",
        "cost": asdict(report.prices),
        "monthly": None if report.monthly is None else asdict(report.monthly),
        "baseline": (
            None
            if report.baseline_prices is None
            else {
                "cost": asdict(report.baseline_prices),
                "monthly": (
                    None if report.baseline_monthly is None else asdict(report.baseline_monthly)
                ),
            }
        ),
        "savings": None if report.savings is None else asdict(report.savings),
        "measured": asdict(report.mine.rates),
        "inputs": asdict(report.inputs),
        "assumptions": list(assumptions(report.inputs, report.mine, report.baseline)),
        "warnings": list(warnings(report.mine, report.baseline)),
    }


def render_lines(report: CostReport) -> Iterator[str]:
    """What speaks against the figures, the figures, then what they assume."""
    found = list(warnings(report.mine, report.baseline))
    if found:
        yield "Warnings:"
        yield from (f"- {one}" for one in found)
    prices = report.prices
    monthly = report.monthly
    if monthly is not None:
        machines = monthly.num_groups * report.inputs.num_machines
        yield (
            f"${_money(monthly.usd_per_month)} per month on {machines} machine"
            f"{'s' if machines != 1 else ''}, which the peak uses to "
            f"{100 * monthly.peak_utilization_fraction:.0f} % and the mean load to "
            f"{100 * monthly.mean_utilization_fraction:.0f} %"
        )
        yield (
            f"${_money(monthly.usd_per_million_output_tokens)} per 1M output tokens of this load, "
            f"${_money(monthly.usd_per_million_total_tokens)} per 1M tokens, prompts included"
        )
        yield (
            "Of machines that always carry "
            f"{100 * report.inputs.utilization:g} % of their measured rate:"
        )
    yield f"${_money(prices.usd_per_million_output_tokens)} per 1M output tokens"
    yield f"${_money(prices.usd_per_million_total_tokens)} per 1M tokens, prompts included"
    yield f"${_money(prices.usd_per_thousand_requests)} per 1,000 requests"
    if report.savings is not None:
        saved = report.savings
        assert report.baseline_prices is not None
        theirs = report.baseline_prices.usd_per_million_output_tokens
        word = "less" if saved.fraction >= 0 else "more"
        yield (
            f"{100 * abs(saved.fraction):.1f} % {word} per output token than the baseline "
            f"(${_money(theirs)} per 1M)"
        )
        if saved.usd_per_month is not None:
            word = "saved" if saved.usd_per_month >= 0 else "lost"
            yield f"${_money(abs(saved.usd_per_month))} per month {word} against the baseline"
    yield "Assumptions:"
    yield from (f"- {one}" for one in assumptions(report.inputs, report.mine, report.baseline))


def _costs(
    inputs: CostInputs, measurement: Measurement, group_usd_per_hour: float
) -> tuple[TokenPrices, MonthlyCost | None]:
    prices = token_prices(measurement.rates, group_usd_per_hour, inputs.utilization)
    if inputs.requests_per_day is None:
        return prices, None
    return prices, monthly_cost(
        measurement.rates,
        group_usd_per_hour,
        inputs.utilization,
        inputs.requests_per_day,
        inputs.peak_factor,
    )


def _money(usd: float) -> str:
    """Whole dollars from 100 on, cents from 1 on, else three significant digits.

    >>> _money(1234.5), _money(12.345), _money(0.012345)
    ('1,234', '12.35', '0.0123')
    """
    if usd >= 100:
        return f"{usd:,.0f}"
    return f"{usd:.2f}" if usd >= 1 else f"{usd:.3g}"
