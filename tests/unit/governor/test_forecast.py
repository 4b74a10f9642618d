"""Tokens and seconds of the next step at each draft length, added up from their parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.governor.acceptance.acceptance_by_class import AcceptanceByClass
from paceline.runtime.governor.contract.samples import ordinary_load, ordinary_sample
from paceline.runtime.governor.costs.prompt_share import PromptShare
from paceline.runtime.governor.forecast import StepForecast, make_forecast

FORECAST = StepForecast(
    [1.0, 1.5, 1.75], [2.0, 3.0, 3.5], [0.02, 0.025, 0.04], [100.0, 120.0, 87.5]
)
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


def forecast_of(
    num_prefilling: int = 0,
    *,
    num_undrafted: int = 0,
    prompt_tokens: int = 0,
    prefilled: int = 0,
    table: CostTable = TABLE,
) -> StepForecast:
    """After steps of four requests that yield eight tokens, with this many of prompts in each, and
    `prefilled` of the requests without a token."""
    prompts = PromptShare()
    for _ in range(20):
        prompts.observe(ordinary_sample(prefill_tokens=prompt_tokens, num_prefilling=prefilled))
    load = replace(LOAD, num_prefilling=num_prefilling, num_undrafted=num_undrafted)
    return make_forecast(load, AcceptanceByClass(2), table.load(load.num_requests), prompts)


def test_the_best_of_the_lengths_at_hand() -> None:
    assert FORECAST.best([0, 1, 2]) == 1
    assert FORECAST.best([0, 2]) == 0


@pytest.mark.parametrize(("max_step_s", "count"), [(0.04, 3), (0.039, 2), (0.02, 1), (0.001, 1)])
def test_lengths_within_an_objective(max_step_s: float, count: int) -> None:
    """Length 0 always remains."""
    found = FORECAST.within(max_step_s)
    assert found.yields == FORECAST.yields[:count]
    assert found.tokens == FORECAST.tokens[:count]
    assert found.seconds == FORECAST.seconds[:count]
    assert found.values == FORECAST.values[:count]


def test_each_request_yields_a_token_and_its_accepted_drafts() -> None:
    """Verified is what is offered, 1 ms each of 4 requests."""
    found = forecast_of()
    assert found.yields == pytest.approx([1.0, 1 + SURVIVAL[0], 1 + sum(SURVIVAL)])
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


def test_undrafted_requests_yield_one_token_and_verify_nothing() -> None:
    """One of four prefills; of the three that decode two take no drafts. Length 1: 3 tokens and
    0.588 accepted, 1.196 for each of the three; 20 ms, 5 ms for the pass, 1 ms for each of 0.98
    tokens that are offered."""
    found = forecast_of(num_prefilling=1, num_undrafted=2)
    assert found.yields[:2] == pytest.approx([1.0, 1 + SURVIVAL[0] / 3])
    assert found.tokens[:2] == pytest.approx([3.0, 3 + SURVIVAL[0]])
    assert found.seconds[:2] == pytest.approx([0.020, 0.025 + 0.001 * OFFERED[0]])


def test_prompts_stretch_the_tokens_of_a_step_and_not_those_of_a_request() -> None:
    """So far one of four requests prefilled in each step, and the three others yielded 7 tokens:
    1/3 prefilling per decoding request, 1/7 per token. At one token for each the four requests
    would be d * (1 + 1/7), now they are 3 * (1 + 1/3): d = 3.5 decode."""
    found = forecast_of(num_prefilling=1, prefilled=1)
    assert found.yields == pytest.approx([1.0, 1 + SURVIVAL[0], 1 + sum(SURVIVAL)])
    assert found.tokens[0] == pytest.approx(3.5)


def test_prompts_that_cost_the_same_beside_any_draft_change_nothing() -> None:
    assert forecast_of(prompt_tokens=40).values == pytest.approx(forecast_of().values)


def test_drafts_cost_more_beside_prompts_where_the_costs_bend() -> None:
    """One draft token per request is free alone, and takes 20 ms beside 40 prompt tokens, which
    come in every eighth output token's step: in 0.79 steps at length 1."""
    bent = CostTable((4,), (0, 1, 2), ((0.020, 0.020, 0.040),), ((0.0, 0.005, 0.010),))
    alone, beside = forecast_of(table=bent), forecast_of(prompt_tokens=40, table=bent)
    tokens = 4 * (1 + SURVIVAL[0])
    assert beside.seconds == alone.seconds
    assert alone.values[1] == pytest.approx(tokens / 0.025)
    assert beside.values[0] == pytest.approx(alone.values[0])
    assert beside.values[1] == pytest.approx(tokens / (0.025 + tokens / 8 * 0.020 * OFFERED[0]))
