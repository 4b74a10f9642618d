"""The latency objective on forecasts with computed values, and against the simulator's truth."""

from __future__ import annotations

import doctest
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.runtime.governor.contract.samples import ordinary_sample, rich_load
from paceline.runtime.governor.forecast import StepForecast
from paceline.runtime.governor.policies import latency
from paceline.runtime.governor.policies.goodput import GoodputPolicy
from paceline.runtime.governor.policies.latency import LatencyPolicy, weigh_slowest
from paceline.runtime.governor.values import EngineLoad, StepSample
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.arms import HeldLength
from paceline.testing.policy_simulator.machines.cost import LinearCost
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

COST = LinearCost(
    base_s=0.020,
    request_s=0.0005,
    judge_s=0.0,
    token_s=0.0006,
    context_ktoken_s=0.0,
    draft_pass_s=0.0015,
    draft_request_s=0.0,
)
MACHINE = Machine(COST, 8, 32, 2048, "keeps_up", is_async=False)
DIFFERENT = (("easy", (0.9,)), ("hard", (0.05,)))
ALL_ALIKE = (("text", (0.7,)),)


def test_where_all_are_alike_it_is_goodput() -> None:
    """A share of 0 changes no value."""
    forecast = StepForecast(
        [1.0, 1.5, 1.75], [8.0, 12.0, 14.0], [0.02, 0.025, 0.03], [400.0, 480.0, 466.7]
    )
    assert weigh_slowest(forecast, 0.0).values == pytest.approx([400.0, 480.0, 466.7], rel=1e-4)


def test_the_slowest_get_a_token_a_step_at_least() -> None:
    """4 requests, survival 1/2 at 1 and 1/2 at 2: X is 1 or 3, mean 2, variance 1. Share 0.04:
    2 - 2.326 * 0.2 = 1.535 tokens; share 1: never less than 1."""
    forecast = StepForecast(
        [1.0, 1.5, 2.0], [4.0, 6.0, 8.0], [0.02, 0.03, 0.04], [200.0, 200.0, 200.0]
    )
    assert weigh_slowest(forecast, 0.04).values[2] == pytest.approx(4 * 1.5348 / 0.04, rel=1e-3)
    assert weigh_slowest(forecast, 1.0).values[1:] == pytest.approx([4 / 0.03, 4 / 0.04])


def test_the_variance_is_that_of_the_tokens_of_a_step() -> None:
    """One request with independent survival 0.8, 0.5, 0.2 at the three positions.

    X is 1, 2, 3, 4 with chances 0.2, 0.3, 0.3, 0.2: computed here from its distribution.
    """
    chances = {1: 0.2, 2: 0.3, 3: 0.3, 4: 0.2}
    mean = sum(x * chance for x, chance in chances.items())
    variance = sum((x - mean) ** 2 * chance for x, chance in chances.items())
    tokens = [1.0, 1.8, 2.3, 2.5]
    forecast = StepForecast(tokens, tokens, [0.02, 0.03, 0.04, 0.05], [50.0] * 4)
    slowest = mean - 2.326 * (0.1 * variance) ** 0.5
    assert weigh_slowest(forecast, 0.1).values[3] == pytest.approx(slowest / 0.05)
    assert weigh_slowest(forecast, 0.1).values[0] == 50.0


def test_prompts_beside_the_answers_do_not_change_what_the_slowest_get() -> None:
    """Half of the drafts accepted, variance 1/4: at share 0.04 the slowest get 1.5 - 2.326 * 0.1 =
    1.2674 of 1.5 tokens. The prompts leave fewer requests that decode at length 1, so the tokens of
    a step are 5 and not 6."""
    even = StepForecast([1.0, 1.5], [4.0, 6.0], [0.02, 0.03], [200.0, 200.0])
    stretched = replace(even, tokens=[4.0, 5.0], values=[200.0, 166.7])
    found, alone = weigh_slowest(stretched, 0.04), weigh_slowest(even, 0.04)
    assert alone.values == pytest.approx([200.0, 200.0 * 1.2674 / 1.5], rel=1e-4)
    assert found.values == pytest.approx([200.0, 166.7 * 1.2674 / 1.5], rel=1e-4)


def test_all_requests_get_the_same_length() -> None:
    """Where the engine could verify other numbers of each request, too."""
    policy = LatencyPolicy(8)
    plan = policy.plan(rich_load(8))
    assert (plan.draft_length > 0, plan.rule) == (True, None)


@pytest.mark.parametrize(("num_waiting", "is_goodput"), [(0, False), (1, True)])
def test_a_single_waiting_request_makes_goodput_the_objective(
    num_waiting: int, is_goodput: bool
) -> None:
    """Where requests differ by all of the variance."""
    policy = LatencyPolicy(8)
    policy._dispersion.share = 1.0
    forecast = StepForecast([1.0, 1.5], [4.0, 6.0], [0.02, 0.03], [200.0, 200.0])
    weighed = policy._weigh(EngineLoad(4, 900, 0, num_waiting, 8), forecast)
    assert weighed.values == ([200.0, 200.0] if is_goodput else pytest.approx([200.0, 4 / 0.03]))


def test_it_learns_costs_and_differences_from_each_sample() -> None:
    """Of four requests two always have more accepted: their share is known after nine steps."""
    policy = LatencyPolicy(8)
    for _ in range(9):
        policy.observe(
            ordinary_sample(
                drafted=(3,) * 4,
                accepted=(3, 0, 3, 0),
                verified_draft_tokens=12,
                judged=("a", "b", "c", "d"),
            )
        )
    assert policy._dispersion.share > 0.4
    assert policy._cost.has_unit


def test_an_objective_for_the_gap_between_chunks_is_kept() -> None:
    with pytest.raises(ValueError, match=r"max_step_s is 0\.0; it must be positive"):
        LatencyPolicy(8, max_step_s=0.0)


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(latency).failed == 0


def serve(policy: Any, texts: Any, num_steps: int = 3000) -> StepLog:
    kinds = tuple(
        TrafficClass(name, Lengths(8, 32), Lengths(100, 300), DraftTruth(hazards))
        for name, hazards in texts
    )
    engine = SimulatedEngine(MACHINE, policy, seed=3)
    engine.run(Phase("warm up", ClosedLoop(16), kinds, num_steps=300))
    return engine.run(Phase("measured", ClosedLoop(16), kinds, num_steps=num_steps))


def tpot_p99_s(log: StepLog) -> float:
    return float(np.percentile(log.time_per_output_token_s, 99))


def test_the_slowest_answers_of_mixed_traffic_are_as_fast_as_at_the_best_held_length() -> None:
    """Half easy, half hard: within 5 % of the best held length, where goodput is 20 % off."""
    held = min(tpot_p99_s(serve(HeldLength(k), DIFFERENT)) for k in (0, 1, 2, 4))
    assert tpot_p99_s(serve(LatencyPolicy(8), DIFFERENT)) < 1.05 * held
    assert tpot_p99_s(serve(GoodputPolicy(8), DIFFERENT)) > 1.2 * held


def test_text_that_is_all_alike_is_served_as_by_goodput() -> None:
    """Nothing is given up where nothing is to be won."""
    slowest, goodput = (serve(p, ALL_ALIKE, 1500) for p in (LatencyPolicy(8), GoodputPolicy(8)))
    assert slowest.tokens_per_s > 0.98 * goodput.tokens_per_s


def test_while_requests_wait_goodput_is_the_objective() -> None:
    """The same policy on the same mixed traffic drafts when others wait for a slot."""
    policy = LatencyPolicy(8)
    last: dict[str, EngineLoad] = {}

    class Watching:
        def observe(self, sample: StepSample) -> None:
            policy.observe(sample)

        def plan(self, load: EngineLoad) -> Any:
            last["load"] = load
            return policy.plan(load)

    serve(Watching(), DIFFERENT)
    load = last["load"]
    crowded = EngineLoad(
        load.num_requests, load.context_tokens, 0, num_waiting=50, max_draft_length=8
    )
    lengths = {
        name: [policy.plan(given).draft_length for _ in range(20)]
        for name, given in (("calm", load), ("crowded", crowded))
    }
    assert sorted(lengths["calm"])[10] == 0
    assert sorted(lengths["crowded"])[10] > 0


def test_it_is_known_by_name() -> None:
    assert isinstance(create_policy("latency", max_draft_length=8), LatencyPolicy)
