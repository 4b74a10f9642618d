"""What `goodput` plans on tables with computed optima, and near the oracle of the simulator.

Before the first sample a draft token is offered with 0.98 and accepted with 0.6, so survival is
0.588, 0.346, 0.203, … and one request gets 1, 1.588, 1.934, 2.137, 2.257, … tokens per step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.governor.contract.samples import ordinary_load, ordinary_sample, rich_load
from paceline.governor.costs.cost_table import CostTable
from paceline.governor.policies.goodput import GoodputPolicy
from paceline.governor.values import DraftPlan, EngineLoad, StepSample
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

LENGTHS = tuple(range(MAX + 1))
ONE = ordinary_load(MAX, num_requests=1, context_tokens=0)


def table(pass_s: float, *, token_s: float = 0.0) -> CostTable:
    """20 ms a step, `token_s` per request and token verified, `pass_s` a draft pass."""
    return CostTable(
        (1, 64),
        LENGTHS,
        tuple(tuple(0.02 + token_s * n * k for k in LENGTHS) for n in (1, 64)),
        (tuple(pass_s * k for k in LENGTHS),) * 2,
    )


def policy(pass_s: float, **options: Any) -> GoodputPolicy:
    token_s = options.pop("token_s", 0.0)
    return GoodputPolicy(MAX, cost_table=table(pass_s, token_s=token_s), **options)


def teach(
    policy: GoodputPolicy, accepted: Sequence[int], classes: Sequence[str] = (), steps: int = 30
) -> None:
    """Drafts of 8 tokens, of which these are accepted; nothing about costs."""
    count = len(accepted)
    for _ in range(steps):
        policy.observe(
            ordinary_sample(
                num_requests=count,
                requested_draft_length=MAX,
                drafted=(MAX,) * count,
                accepted=tuple(accepted),
                verified_draft_tokens=MAX * count,
                is_clean=False,
                classes=tuple(classes),
            )
        )


@pytest.mark.parametrize(
    ("pass_s", "length"),
    [
        (0.010, 1),  # 50.0 tokens a second, 52.9, 48.3
        (0.005, 2),  # 50.0, 63.5, 64.5, 61.1
        (0.003, 3),  # 50.0, 69.0, 74.4, 73.7 for 3
        (0.012, 0),  # 50.0, 49.6
    ],
)
def test_the_length_with_the_most_tokens_per_second_is_planned(pass_s: float, length: int) -> None:
    tokens = [1.0, 1.588, 1.934, 2.137]
    rates = [num / (0.02 + pass_s * k) for k, num in enumerate(tokens)]
    expected = rates.index(max(rates))
    plans = [policy(pass_s).plan(ONE), policy(pass_s).plan(ONE)]
    if length == 0:
        assert expected == 0
        return
    assert [plan.draft_length for plan in plans] == [expected] * 2
    assert plans[0].expected_tokens_per_s == pytest.approx(max(rates), rel=1e-3)


def test_a_draft_is_looked_at_less_and_less_where_drafting_does_not_pay() -> None:
    found = policy(0.1)
    plans = [found.plan(ONE) for _ in range(127)]
    looks = [step for step, plan in enumerate(plans, start=1) if plan.draft_length]
    assert looks == [1, 3, 7, 15, 31, 63, 127]
    assert {plan.draft_length for plan in plans} == {0, 1}
    assert all(plan.is_exploring == (plan.draft_length == 1) for plan in plans)


def test_verdicts_of_a_look_bring_drafting_back() -> None:
    """All accepted: 9 tokens a step, in 0.82 s at most, is better than 1 in 0.02 s; a draft of one
    that costs 12 ms yields 1.588 before and 1.9 after."""
    found = policy(0.012)
    assert found.plan(ONE).is_exploring
    teach(found, [MAX])
    assert not found.plan(ONE).is_exploring
    assert found.plan(ONE).draft_length > 0


def test_the_classes_of_the_batch_decide_at_once() -> None:
    """Greedy drafts are accepted, sampled ones are not. The length changes with the batch."""
    found = policy(0.004)
    teach(found, [MAX, 0], ["greedy", "sampled"])
    loads = [
        replace(ONE, num_requests=2, classes=classes)
        for classes in ({"greedy": 2}, {"sampled": 2}, {"greedy": 1, "sampled": 1}, {"greedy": 2})
    ]
    greedy, sampled, mixed, again = (found.plan(load) for load in loads)
    assert greedy.draft_length == again.draft_length == MAX
    assert sampled.is_exploring or sampled.draft_length == 0
    assert 0 < mixed.draft_length <= MAX


def test_a_length_keeps_to_the_ceiling_and_to_the_allowed_ones() -> None:
    found = policy(0.0001)
    teach(found, [MAX])
    assert found.plan(ONE).draft_length == MAX
    assert found.plan(replace(ONE, max_draft_length=3)).draft_length == 3
    assert found.plan(replace(ONE, allowed_lengths=(0, 1, 5))).draft_length == 5
    assert found.plan(replace(ONE, max_draft_length=4, allowed_lengths=(0, 1, 5))).draft_length == 1
    assert found.plan(replace(ONE, allowed_lengths=(0,))).draft_length == 0
    assert found.plan(replace(ONE, max_draft_length=0)).draft_length == 0


@pytest.mark.parametrize(("max_step_s", "length"), [(math.inf, 8), (0.025, 5), (0.0205, 0)])
def test_an_objective_leaves_out_longer_steps(max_step_s: float, length: int) -> None:
    """20 ms and 1 ms for each pass; where nothing may be drafted, nothing is looked at."""
    found = policy(0.001, max_step_s=max_step_s)
    teach(found, [MAX])
    plan = found.plan(ONE)
    assert (plan.draft_length, plan.is_exploring) == (length, False)


@pytest.mark.parametrize("mode", [{}, {"reports_confidences": True, "ends_drafts_early": True}])
def test_an_objective_holds_where_drafts_end_early_too(mode: dict[str, bool]) -> None:
    found = policy(0.001, max_step_s=0.025)
    teach(found, [MAX])
    assert found.plan(replace(ONE, **mode)).draft_length == 5


def test_requests_that_prefill_yield_no_tokens_and_have_no_drafts() -> None:
    """64 requests, passes free, 0.1 ms a token verified. All decoding: 64 tokens in 20 ms or 101.6
    in 26.3, 3,860 a second; a second token each would yield 22 for 6 ms more. Where one decodes, a
    token costs 0.1 ms once, so it drafts all 8, and yields 2.4 tokens a step."""
    decoding = replace(ONE, num_requests=64)
    crowd = policy(0.0, token_s=0.0001).plan(decoding)
    single = policy(0.0, token_s=0.0001).plan(replace(decoding, num_prefilling=63))
    assert (crowd.draft_length, single.draft_length) == (1, MAX)
    assert crowd.expected_tokens_per_s == pytest.approx(3868, rel=0.005)
    assert single.expected_tokens_per_s == pytest.approx(2.41 / 0.0207, rel=0.02)


def test_reasons_are_plain() -> None:
    assert policy(0.01).plan(ONE).reason == "1 of 8: acceptance 0.59; 30 ms a step"
    assert policy(0.003).plan(ONE).reason == "2 of 8: acceptance 0.59, 0.35; 26 ms a step"
    off = policy(0.1)
    assert off.plan(ONE).reason == "off: one draft to see acceptance"
    assert off.plan(ONE).reason == "0 of 8: acceptance 0.59; 20 ms a step"
    assert GoodputPolicy(MAX).plan(ONE).reason == "3 of 8: acceptance 0.59, 0.35, 0.20"
    idle = replace(ONE, num_requests=0)
    assert off.plan(idle).reason == "no requests or no drafting allowed"


def test_step_times_are_known_after_a_plan() -> None:
    """Without prompt tokens, at each length."""
    found = policy(0.01)
    assert found.step_seconds == ()
    found.plan(ONE)
    assert found.step_seconds == pytest.approx([0.02 + 0.01 * k for k in LENGTHS])


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="max_draft_length is 0; it must be at least 1"):
        GoodputPolicy(0)
    with pytest.raises(ValueError, match=r"max_step_s is 0\.0; it must be positive"):
        GoodputPolicy(8, max_step_s=0.0)


# Where the engine reports confidences.

TWO = rich_load(MAX, num_requests=2, context_tokens=0, ends_drafts_early=False)
CLASSES = ("greedy", "sampled")


def test_a_rule_comes_with_confidences_only() -> None:
    found = policy(0.003)
    assert found.plan(replace(TWO, reports_confidences=False)).rule is None
    rule = found.plan(TWO).rule
    assert rule is not None
    assert not rule.ends_early
    assert rule.maps == {"greedy": (1.2, 0.6), "sampled": (1.2, 0.6)}


def test_the_first_price_is_the_time_of_the_last_third_of_the_best_length() -> None:
    """2 requests, 3 ms a pass and 1 ms a token: 2 * (1, 1.588, 1.934) tokens in 20, 25 and 30 ms,
    so length 2 is best at 129 tokens a second, and a token costs 1 ms: 0.129 tokens."""
    rule = policy(0.003, token_s=0.001).plan(TWO).rule
    assert rule is not None
    assert rule.least_survival == pytest.approx(0.129, abs=0.001)
    assert rule.pass_tokens == pytest.approx([129 * 0.003] * 7, rel=0.01)


def test_widths_depend_on_the_price_of_the_step_before() -> None:
    """Two policies with the same plan and the same confidences: after a step of sure drafts a token
    must be surer than after a step of doubtful ones."""
    widths = []
    for before in (0.99, 0.2):
        found = policy(0.003, token_s=0.004)
        for _ in range(10):
            found.plan(TWO)
            found.choose_widths(np.full((2, 2), before), CLASSES)
        found.plan(TWO)
        confidences = np.array([[0.5, 0.5], [0.1, 0.1]])
        widths.append(found.choose_widths(confidences, CLASSES))
    assert widths[0] != widths[1]


def test_widths_of_a_step_do_not_depend_on_its_own_other_drafts() -> None:
    """The first request keeps as many, whatever the second one drafts."""
    found = []
    for other in (0.99, 0.01):
        one = policy(0.003, token_s=0.001)
        one.plan(TWO)
        found.append(one.choose_widths(np.array([[0.5, 0.5], [other, other]]), CLASSES)[0])
    assert found[0] == found[1]


def test_without_a_rule_all_drafts_are_verified() -> None:
    """Before the first plan, and at a look while off."""
    found = policy(0.1)
    drafts = np.full((2, 3), 1e-4)
    assert found.choose_widths(drafts, CLASSES) == [3, 3]
    assert found.plan(TWO).is_exploring
    assert found.choose_widths(drafts, CLASSES) == [3, 3]


def test_an_empty_batch_has_no_widths() -> None:
    found = policy(0.003)
    found.plan(TWO)
    assert found.choose_widths(np.zeros((0, 3)), ()) == []


def test_where_drafts_end_early_the_ceiling_is_planned() -> None:
    """Or nothing, where no pass is worth its time."""
    early = replace(TWO, ends_drafts_early=True)
    plan = policy(0.003).plan(early)
    assert plan.draft_length == MAX
    assert plan.rule is not None
    assert plan.rule.ends_early
    assert plan.reason.startswith("up to 8 of 8: acceptance")
    off = policy(0.1)
    assert [off.plan(early).draft_length for _ in range(3)] == [1, 0, 1]


def test_confidences_are_learned_by_class_and_without_one() -> None:
    """Sure tokens are rejected: the chance at confidence 0.9 falls, in that class alone."""

    def seen(classes: tuple[str, ...]) -> StepSample:
        return ordinary_sample(
            classes=classes,
            drafted=(1,) * 4,
            accepted=(0,) * 4,
            verified_draft_tokens=4,
            confidences=((0.9,),) * 4,
        )

    found = policy(0.0005)
    for _ in range(50):
        found.observe(seen(("greedy",) * 4))
    rule = found.plan(TWO).rule
    assert rule is not None
    chances = {
        name: 1.0 / (1.0 + math.exp(-intercept - slope * math.log(9.0)))
        for name, (intercept, slope) in rule.maps.items()
    }
    assert chances["sampled"] == pytest.approx(0.925, abs=0.001)
    assert chances["greedy"] < 0.3
    for _ in range(50):
        found.observe(seen(()))
    nameless = found.plan(replace(TWO, classes={})).rule
    assert nameless is not None
    assert list(nameless.maps) == [""]


# Against engines of the simulator, whose best length is known.


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


def test_loads_that_grow_256_fold_are_planned_for() -> None:
    """From 1 to 256 requests and back, with samples of neither."""
    found = policy(0.003, token_s=0.001)
    plans: list[DraftPlan] = []
    for num_requests in (1, 256, 4096, 1):
        load: EngineLoad = replace(TWO, num_requests=num_requests, classes={"greedy": num_requests})
        plans.append(found.plan(load))
        drafts = np.full((num_requests, 2), 0.9)
        assert set(found.choose_widths(drafts, ["greedy"] * num_requests)) <= {0, 1, 2}
    assert all(math.isfinite(plan.expected_tokens_per_s or 0.0) for plan in plans)
