"""Tokens and seconds of the next step at each draft length, added up from their parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.governor.acceptance.acceptance_by_class import AcceptanceByClass
from paceline.governor.contract.samples import ordinary_load
from paceline.governor.costs.cost_model import CostModel
from paceline.governor.costs.cost_table import CostTable
from paceline.governor.forecast import StepForecast, make_forecast

FORECAST = StepForecast([2.0, 3.0, 3.5], [0.02, 0.025, 0.04], [100.0, 120.0, 87.5])
TABLE = CostTable(
    (1, 4),
    (0, 1, 2),
    ((0.020, 0.021, 0.022), (0.020, 0.024, 0.028)),
    ((0.0, 0.005, 0.010), (0.0, 0.005, 0.010)),
)
"""20 ms a step, 1 ms for each request and token verified, 5 ms a pass."""
LOAD = ordinary_load(2, context_tokens=0)
SURVIVAL, OFFERED = (0.588, 0.588**2), (0.98, 0.98**2)
"""Of the prior."""


def forecast_of(num_prefilling: int = 0, prompts: float = 0.0) -> StepForecast:
    load = replace(LOAD, num_prefilling=num_prefilling)
    return make_forecast(load, AcceptanceByClass(2), CostModel(TABLE, 2), prompts)


def test_the_best_of_the_lengths_at_hand() -> None:
    assert FORECAST.best([0, 1, 2]) == 1
    assert FORECAST.best([0, 2]) == 0


@pytest.mark.parametrize(("max_step_s", "count"), [(0.04, 3), (0.039, 2), (0.02, 1), (0.001, 1)])
def test_lengths_within_an_objective(max_step_s: float, count: int) -> None:
    """Length 0 always remains."""
    found = FORECAST.within(max_step_s)
    assert found.tokens == FORECAST.tokens[:count]
    assert found.seconds == FORECAST.seconds[:count]
    assert found.values == FORECAST.values[:count]


def test_each_request_yields_a_token_and_its_accepted_drafts() -> None:
    """Verified is what is offered, 1 ms each of 4 requests."""
    found = forecast_of()
    assert found.tokens == pytest.approx([4.0, 4 * (1 + SURVIVAL[0]), 4 * (1 + sum(SURVIVAL))])
    assert found.seconds == pytest.approx(
        [0.020, 0.025 + 0.004 * OFFERED[0], 0.030 + 0.004 * sum(OFFERED)]
    )
    assert found.values == pytest.approx(
        [tokens / seconds for tokens, seconds in zip(found.tokens, found.seconds, strict=True)]
    )


def test_requests_that_prefill_yield_nothing_and_have_no_drafts() -> None:
    found = forecast_of(num_prefilling=3)
    assert found.tokens[:2] == pytest.approx([1.0, 1 + SURVIVAL[0]])
    assert found.seconds[1] == pytest.approx(0.025 + 0.001 * OFFERED[0])


def test_where_all_prefill_it_is_as_if_one_decoded() -> None:
    assert forecast_of(num_prefilling=4).tokens == forecast_of(num_prefilling=3).tokens


def test_prompt_tokens_come_along_with_output_tokens() -> None:
    """Two with each: 8 at length 0, 1 ms each."""
    assert forecast_of(prompts=2.0).seconds[0] == pytest.approx(0.028)
    more = forecast_of(prompts=2.0).seconds[1] - forecast_of().seconds[1]
    assert more == pytest.approx(0.001 * 2 * 4 * (1 + SURVIVAL[0]))
