"""Tokens, seconds and prices of each length, from estimates that are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from paceline.governor.estimates.prefill_mix import PrefillMix
from paceline.governor.estimates.step_forecast import StepForecast, make_forecast
from paceline.governor.values import EngineLoad

FORECAST = StepForecast([4.0, 6.0, 7.0], [0.020, 0.025, 0.040], [200.0, 240.0, 175.0])


@dataclass
class Acceptance:
    """Half of the drafts are accepted up to position 1, a quarter up to 2; 0.8 have a first one."""

    survival: list[float] = field(default_factory=lambda: [0.5, 0.25, 0.125])
    offered: list[float] = field(default_factory=lambda: [0.8, 0.4, 0.2])


@dataclass
class Cost:
    """10 ms a step, 0.5 ms for each draft token that is verified; no prompts come along."""

    asked: list[Any] = field(default_factory=list)
    prefills: Any = field(default_factory=PrefillMix)

    def predict_lengths_s(self, *load: Any, **more: Any) -> list[float]:
        self.asked.append((*load, more))
        return [0.010 + 0.0005 * drafts for drafts in load[1]]


@dataclass
class Prompts:
    """A fifth of the steps have prompts; as many more requests decode as a length yields tokens."""

    fraction: float = 0.2

    def stretch(self, tokens_per_request: float) -> float:
        return 1.0 + tokens_per_request


@dataclass
class CostWithPrompts(Cost):
    """Prompts take 4, 2, 1 and 6 ms per output token at lengths 0 to 3."""

    prefills: Any = field(default_factory=Prompts)

    def predict_prompts_s(self, *load: Any) -> list[float]:
        self.asked.append(load)
        return [0.004, 0.002, 0.001, 0.006]


def forecast(
    num_requests: int = 2, ceiling: int = 3, cost: Cost | None = None, **more: float
) -> StepForecast:
    load = EngineLoad(num_requests, 900, 0, 0, ceiling)
    return make_forecast(load, Acceptance(), cost or Cost(), **more)  # type: ignore[arg-type]


def test_each_request_yields_one_token_and_what_is_accepted() -> None:
    assert forecast().tokens == [2.0, 3.0, 3.5, 3.75]


def test_the_time_is_that_of_the_drafts_that_are_offered() -> None:
    """0.8, 1.2 and 1.4 tokens for each of two requests; the chance that any of them has one."""
    cost = Cost()
    found = forecast(cost=cost)
    assert found.seconds == pytest.approx([0.0100, 0.0108, 0.0112, 0.0114])
    [(num_requests, drafts, context, more)] = cost.asked
    assert (num_requests, context) == (2, 900)
    assert drafts == pytest.approx([0.0, 1.6, 2.4, 2.8])
    assert more["verifying_fraction"] == pytest.approx(1.0 - 0.2**2)


def test_the_value_is_the_rate() -> None:
    found = forecast()
    assert found.values == pytest.approx([2 / 0.01, 3 / 0.0108, 3.5 / 0.0112, 3.75 / 0.0114])


@pytest.mark.parametrize(("ceiling", "num_lengths"), [(0, 1), (2, 3), (3, 4), (9, 4)])
def test_lengths_reach_to_the_ceiling_or_the_deepest_estimate(
    ceiling: int, num_lengths: int
) -> None:
    found = forecast(ceiling=ceiling)
    assert len(found.tokens) == len(found.seconds) == len(found.values) == num_lengths


def test_a_length_that_yields_more_leaves_fewer_requests_decoding() -> None:
    """The drafts and the output tokens of 2, 2.5, 2.75 and 2.875 times fewer requests. Prompts take
    the longer, the more tokens come out: 3, 1, 0 and 5 ms per token beyond the least of all."""
    cost = CostWithPrompts()
    found = forecast(cost=cost)
    drafts = [0.0, 1.6 / 2.5, 2.4 / 2.75, 2.8 / 2.875]
    outputs = [2.0 / 2.0, 3.0 / 2.5, 3.5 / 2.75, 3.75 / 2.875]
    decodes, prompts = cost.asked
    assert decodes[1] == prompts[1] == pytest.approx(drafts)
    assert (prompts[0], prompts[2]) == (2, pytest.approx(outputs))
    assert found.tokens == [2.0, 3.0, 3.5, 3.75]  # the tokens of the requests that decode now
    assert found.seconds == pytest.approx([0.010 + 0.0005 * num for num in drafts])
    more_s = [0.003, 0.001, 0.0, 0.005]
    assert found.values == pytest.approx(
        [
            num / (seconds + num * more)
            for num, seconds, more in zip(outputs, found.seconds, more_s, strict=True)
        ]
    )


@pytest.mark.parametrize("ceiling", [1, 2, 3])
def test_drafts_beyond_the_end_of_an_answer_are_no_gain(ceiling: int) -> None:
    """Answers of 2 tokens. A request gets X tokens in a step: 1 (a half), 2 (a quarter), 3 or 4 (an
    eighth each). E[X²] is 1, 2.5, 3.75 and 4.625, E[X] is 1, 1.5, 1.75 and 1.875 at lengths 0 to 3,
    and E[X²] / (2 E[X]) - 1/2 tokens lie beyond the end."""
    overshoots = [0.0, 2.5 / 3.0 - 0.5, 3.75 / 3.5 - 0.5, 4.625 / 3.75 - 0.5][: ceiling + 1]
    rates = forecast(ceiling=ceiling).values
    found = forecast(ceiling=ceiling, answer_tokens=2.0).values
    assert found == pytest.approx(
        [rate / (1.0 + more / 2.0) for rate, more in zip(rates, overshoots, strict=True)]
    )


def test_a_probe_of_a_longer_draft_wastes_the_longer_time() -> None:
    """From 1 to 2: the tokens of length 1 come anyway, 15 ms later."""
    assert FORECAST.price_s(2, 1) == pytest.approx(0.040 - 0.025)


def test_a_probe_of_a_shorter_draft_wastes_the_tokens_it_forgoes() -> None:
    """From 1 to 0: 20 ms for four tokens, of which length 1 yields six in 25 ms."""
    assert FORECAST.price_s(0, 1) == pytest.approx(0.020 - 0.025 * 4 / 6)


def test_a_probe_costs_two_hundredths_of_a_step_at_least() -> None:
    """From 2 to 1: fewer tokens, but so much faster that nothing is wasted."""
    assert FORECAST.price_s(1, 2) == pytest.approx(0.02 * 0.040)


@pytest.mark.parametrize(
    ("max_step_s", "num_lengths"),
    [(math.inf, 3), (0.040, 3), (0.039, 2), (0.025, 2), (0.024, 1), (0.001, 1)],
)
def test_an_objective_leaves_out_longer_steps(max_step_s: float, num_lengths: int) -> None:
    """Length 0 always remains."""
    within = FORECAST.within(max_step_s)
    assert within.tokens == FORECAST.tokens[:num_lengths]
    assert within.seconds == FORECAST.seconds[:num_lengths]
    assert within.values == FORECAST.values[:num_lengths]
