"""`goodput` comes near the best length in engines of the simulator, where that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.governor.policies.goodput import GoodputPolicy
from unit.governor.steady import (
    EASY,
    HARD,
    LARGE,
    MAX,
    MIDDLING,
    SMALL,
    SteadyEngine,
    hazard,
    measured_table,
)


def trained(engine: SteadyEngine, num_requests: int, text: Any, num_steps: int = 100) -> float:
    """The share of the oracle over 400 steps, after `num_steps` steps of learning."""
    engine.run(num_requests, text, num_steps)
    return engine.share_of_best(engine.run(num_requests, text, 400), num_requests, text)


@pytest.mark.parametrize("num_requests", [1, 16, 64])
@pytest.mark.parametrize("text", [EASY, MIDDLING, HARD], ids=["easy", "middling", "hard"])
@pytest.mark.parametrize("cost", [LARGE, SMALL], ids=["large", "small"])
def test_goodput_comes_near_the_best_fixed_length(cost: Any, text: Any, num_requests: int) -> None:
    """With the table of a calibration: 96 % of the oracle at least."""
    shares = []
    for seed in range(3):
        found = GoodputPolicy(MAX, cost_table=measured_table(cost))
        shares.append(trained(SteadyEngine(found, cost, seed=seed), num_requests, text))
    assert sum(shares) / len(shares) >= 0.96


@pytest.mark.parametrize("num_requests", [1, 16])
def test_without_a_table_it_comes_near_too(num_requests: int) -> None:
    """90 % of the oracle, on proportions that were assumed."""
    engine = SteadyEngine(GoodputPolicy(MAX), LARGE)
    assert trained(engine, num_requests, MIDDLING, 300) >= 0.9


def test_goodput_switches_off_when_drafting_loses() -> None:
    """At 64 requests of hard text length 0 is best: nearly every step is off."""
    engine = SteadyEngine(GoodputPolicy(MAX, cost_table=measured_table(LARGE)))
    assert engine.best_length(64, HARD) == 0
    engine.run(64, hazard(0.05), 100)
    lengths = engine.lengths(64, hazard(0.05), 400)
    assert lengths.count(0) >= 0.95 * len(lengths)


@pytest.mark.parametrize("num_requests", [1, 4, 16])
def test_goodput_comes_back_from_off(num_requests: int) -> None:
    """Off for long on hopeless text, then easy text: 300 steps later it is near the best."""
    hopeless, easy = hazard(0.05), hazard(0.9)
    engine = SteadyEngine(GoodputPolicy(MAX, cost_table=measured_table(SMALL)), SMALL)
    engine.run(num_requests, hopeless, 600)
    engine.run(num_requests, easy, 300)
    log = engine.run(num_requests, easy, 200)
    assert engine.share_of_best(log, num_requests, easy) >= 0.95


def test_goodput_shortens_as_load_grows() -> None:
    """The same text at 1 and at 64 requests: verification gets expensive, drafts get shorter."""
    engine = SteadyEngine(GoodputPolicy(MAX, cost_table=measured_table(LARGE)))
    alone = engine.lengths(1, EASY, 300)[-50:]
    crowded = engine.lengths(64, EASY, 300)[-50:]
    assert sorted(alone)[25] > sorted(crowded)[25]


def test_goodput_learns_that_a_drafter_seldom_offers() -> None:
    """A free n-gram drafter that matches 40 % of the time, and then well: long drafts pay."""
    seldom = replace(hazard(0.9), match_start=0.4, match_stay=0.4)
    found = GoodputPolicy(MAX, cost_table=measured_table(LARGE, drafts_free=True))
    engine = SteadyEngine(found, drafter="ngram")
    assert trained(engine, 4, seldom, 150) >= 0.95
