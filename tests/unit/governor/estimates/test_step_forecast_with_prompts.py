"""The forecast of a step whose requests are not all decoding."""

from __future__ import annotations

import pytest

from paceline.governor.contract.samples import ordinary_load, ordinary_sample
from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.cost import CostModel
from paceline.governor.estimates.step_forecast import StepForecast, make_forecast
from paceline.governor.values import StepSample

MAX = 8
KNEE = 165
"""Tokens that a step computes in the time of one."""


def gpu_s(tokens: float, length: int) -> float:
    return 0.0015 + max(0.004, 0.004 / KNEE * tokens) + 0.0003 * length


def gpu_step(num_requests: int, length: int, prompt: int) -> StepSample:
    """All of `num_requests` decode, and three in four of their drafts are accepted."""
    return ordinary_sample(
        num_requests=num_requests,
        requested_draft_length=length,
        draft_length=length,
        drafted=(length,) * num_requests,
        accepted=(0, *[length] * 3) * (num_requests // 4),
        verified_draft_tokens=num_requests * length,
        prefill_tokens=prompt,
        duration_s=gpu_s(num_requests * (1 + length) + prompt, length),
    )


def learned(num_requests: int, prompt: int) -> tuple[AcceptanceModel, CostModel]:
    """All lengths in turn, each with `prompt` tokens of prompts per token that a request gets."""
    acceptance, cost = AcceptanceModel(MAX), CostModel()
    for turn in range(600):
        length = turn % (MAX + 1)
        num_outputs = num_requests * (1 + 0.75 * length)
        sample = gpu_step(num_requests, length, int(prompt * num_outputs / num_requests))
        acceptance.observe(sample)
        cost.observe(sample)
    return acceptance, cost


def best(forecast: StepForecast) -> int:
    return forecast.values.index(max(forecast.values))


def test_requests_that_are_prefilling_yield_nothing_and_are_not_drafted_for() -> None:
    """6 of 8 requests are prefilling: the tokens of 2."""
    acceptance, cost = learned(8, 0)
    load = ordinary_load(MAX, num_requests=8, num_prefilling=6)
    assert load.num_decoding == 2
    of_eight = make_forecast(ordinary_load(MAX, num_requests=8), acceptance, cost)
    of_two = make_forecast(load, acceptance, cost)
    assert of_two.tokens == pytest.approx([tokens / 4 for tokens in of_eight.tokens])
    assert of_two.seconds[8] <= of_eight.seconds[8]


def test_a_batch_that_only_prefills_has_a_forecast() -> None:
    acceptance, cost = learned(8, 0)
    forecast = make_forecast(ordinary_load(MAX, num_prefilling=4), acceptance, cost)
    assert min(forecast.tokens) > 0.0
    assert min(forecast.seconds) > 0.0


@pytest.mark.parametrize("prompt", [0, 48])
def test_the_best_length_counts_the_prompt_tokens_that_come_along(prompt: int) -> None:
    """At 32 requests 165 tokens are free: drafts of 4 fill them alone. With 1.5 prompt tokens per
    output token, drafts of 1 and their prompts do."""
    acceptance, cost = learned(32, prompt)
    forecast = make_forecast(ordinary_load(MAX, num_requests=32), acceptance, cost)
    yields = [tokens / 32 for tokens in forecast.tokens]
    true_s = [gpu_s(32 * (1 + length) + prompt * num, length) for length, num in enumerate(yields)]
    true_rates = [32 * num / seconds for num, seconds in zip(yields, true_s, strict=True)]
    assert true_rates[best(forecast)] >= 0.99 * max(true_rates)


def test_prompts_leave_the_bound_on_a_step_to_decodes() -> None:
    """Prompt tokens beside decodes do not make lengths too slow for an objective; how many may come
    along is bounded elsewhere."""
    acceptance, cost = learned(4, 0)
    load = ordinary_load(MAX, num_requests=4)
    without = make_forecast(load, acceptance, cost).within(0.0065)
    for length in (0, 1, 2, 3) * 8:
        cost.observe(gpu_step(4, length, 2000))
    with_prompts = make_forecast(load, acceptance, cost)
    assert cost.prefills.fraction > 0.3
    assert len(with_prompts.within(0.0065).values) == len(without.values) > 2
