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
    prefills: PrefillMix = field(default_factory=PrefillMix)

    def predict_lengths_s(self, *load: Any, **more: Any) -> list[float]:
        self.asked.append((*load, more))
        return [0.010 + 0.0005 * drafts for drafts in load[1]]


def forecast(num_requests: int = 2, ceiling: int = 3, cost: Cost | None = None) -> StepForecast:
    load = EngineLoad(num_requests, 900, 0, 0, ceiling)
    return make_forecast(load, Acceptance(), cost or Cost())  # type: ignore[arg-type]


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
