"""What `goodput` plans on tables with computed optima, and near the oracle of the simulator.

Before the first sample a draft token is offered with 0.98 and accepted with 0.6, so survival is
0.588, 0.346, 0.203, … and one request gets 1, 1.588, 1.934, 2.137, 2.257, … tokens per step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from paceline.governor.contract.samples import ordinary_load, ordinary_sample, rich_load
from paceline.governor.costs.cost_table import CostTable
from paceline.governor.drafting.drafting_round import DraftingRound
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


NOT_WORTH_IT_S = 0.015
"""Of a pass, which then takes an acceptance of 0.75."""


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


def verdict(requested: int, *, accepted: int) -> StepSample:
    """A step of one request that verifies a draft of `requested` tokens."""
    return ordinary_sample(
        num_requests=1,
        requested_draft_length=requested,
        drafted=(requested,),
        accepted=(accepted,),
        verified_draft_tokens=requested,
        is_clean=False,
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


def test_test_drafts_become_rarer_where_drafting_does_not_pay() -> None:
    found = policy(NOT_WORTH_IT_S)
    plans = [found.plan(ONE) for _ in range(400)]
    drafted = [step for step, plan in enumerate(plans, start=1) if plan.draft_length]
    assert drafted[0] == 1
    gaps = [later - earlier for earlier, later in pairwise(drafted)]
    assert all(later == pytest.approx(2 * earlier, abs=2) for earlier, later in pairwise(gaps))
    assert {plan.draft_length for plan in plans} == {0, 1}
    assert all(plan.is_exploring == (plan.draft_length == 1) for plan in plans)


def test_verdicts_of_a_test_draft_bring_drafting_back() -> None:
    """All accepted: 9 tokens a step, in 0.82 s at most, is better than 1 in 0.02 s; a draft of one
    that costs 12 ms yields 1.588 before and 1.9 after."""
    found = policy(0.012)
    assert found.plan(ONE).is_exploring
    teach(found, [MAX])
    assert not found.plan(ONE).is_exploring
    assert found.plan(ONE).draft_length > 0


@pytest.mark.parametrize(("requested", "repeats"), [(1, True), (3, False)])
def test_a_better_test_draft_is_repeated_and_an_older_draft_is_not(
    requested: int, repeats: bool
) -> None:
    """All accepted, which is not worth its time yet."""
    found = policy(NOT_WORTH_IT_S)
    assert found.plan(ONE).is_exploring
    found.observe(verdict(requested, accepted=requested))
    assert [found.plan(ONE).is_exploring for _ in range(2)] == [repeats, False]


def test_a_test_draft_no_better_than_expected_is_not_repeated() -> None:
    found = policy(NOT_WORTH_IT_S)
    assert found.plan(ONE).is_exploring
    found.observe(verdict(1, accepted=0))
    assert [found.plan(ONE).is_exploring for _ in range(2)] == [False, False]


def test_verdicts_before_the_first_test_draft_repeat_none() -> None:
    """Of drafts of one token, as long as a test draft."""
    found = policy(NOT_WORTH_IT_S)
    found.observe(verdict(1, accepted=1))
    assert [found.plan(ONE).is_exploring for _ in range(3)] == [True, False, False]


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
    """20 ms and 1 ms for each pass; where nothing may be drafted, there is no test draft."""
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
    off = policy(NOT_WORTH_IT_S)
    assert off.plan(ONE).reason == "off: one test draft"
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


@pytest.mark.parametrize("mode", [{}, {"reports_confidences": True, "ends_drafts_early": True}])
def test_without_a_unit_no_time_is_stated_and_none_is_compared(mode: dict[str, Any]) -> None:
    """Without a table, costs are proportions until the first clean step, of 30 ms. An objective of
    1 ms leaves no length from then on."""
    found, load = GoodputPolicy(MAX, max_step_s=0.001), replace(ONE, **mode)
    before = found.plan(load)
    assert before.draft_length > 0
    assert (before.expected_tokens_per_s, found.step_seconds) == (None, ())
    found.observe(ordinary_sample(is_clean=False))
    assert found.plan(load).draft_length > 0
    found.observe(ordinary_sample())
    after = found.plan(load)
    assert after.draft_length == 0
    assert after.expected_tokens_per_s == pytest.approx(1.0 / found.step_seconds[0])
    assert len(found.step_seconds) == MAX + 1


NO_DRAFTS: dict[str, dict[str, Any]] = {
    "only prompts": {"num_prefilling": 1},
    "only capped requests": {"num_undrafted": 1},
}


@pytest.mark.parametrize("changes", NO_DRAFTS.values(), ids=NO_DRAFTS)
def test_steps_in_which_no_request_takes_drafts_do_not_count_as_off(
    changes: dict[str, Any],
) -> None:
    """Nothing is drafted in them, and the pause from one test draft to the next stays as long."""
    drafted = []
    for num_between in (0, 3):
        found = policy(NOT_WORTH_IT_S)
        plans = []
        for _ in range(100):
            plans.append(found.plan(ONE).draft_length)
            for _ in range(num_between):
                plan = found.plan(replace(ONE, **changes))
                assert (plan.draft_length, plan.reason) == (0, "no request takes drafts")
                assert not plan.is_exploring
        drafted.append(plans)
    assert drafted[0] == drafted[1]
    assert sum(drafted[0]) > 3


def test_while_drafting_a_step_of_prompts_has_one_pass() -> None:
    """So that the draft model has the prompts. The shortest length that is allowed."""
    found = policy(0.003)
    assert found.plan(ONE).draft_length == 2
    prompts = replace(ONE, num_prefilling=1)
    assert found.plan(prompts).draft_length == 1
    assert found.plan(replace(prompts, allowed_lengths=(0, 2, 5))).draft_length == 2


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
            found.choose_widths(np.full((2, 2), before), CLASSES, [2, 2])
        found.plan(TWO)
        confidences = np.array([[0.5, 0.5], [0.1, 0.1]])
        widths.append(found.choose_widths(confidences, CLASSES, [2, 2]))
    assert widths[0] != widths[1]


def test_widths_of_a_step_do_not_depend_on_its_own_other_drafts() -> None:
    """The first request keeps as many, whatever the second one drafts."""
    found = []
    for other in (0.99, 0.01):
        one = policy(0.003, token_s=0.001)
        one.plan(TWO)
        confidences = np.array([[0.5, 0.5], [other, other]])
        found.append(one.choose_widths(confidences, CLASSES, [2, 2])[0])
    assert found[0] == found[1]


def test_the_first_price_is_of_the_requests_that_take_drafts() -> None:
    """Two of four, with passes that are free. Up to one token for each of the four costs nothing,
    and twice as many 40 ms. So two drafts of two tokens cost nothing, and the price is the least
    one."""
    bent = CostTable((4,), (0, 1, 2), ((0.020, 0.020, 0.060),), ((0.0, 0.0, 0.0),))
    found = GoodputPolicy(2, cost_table=bent)
    load = replace(TWO, num_requests=4, num_undrafted=2, max_draft_length=2)
    plan = found.plan(load)
    assert plan.rule is not None
    assert (plan.draft_length, plan.rule.least_survival) == (2, 1e-3)


def test_the_next_price_is_of_all_requests_that_yield_a_token() -> None:
    """Ten, of which two take drafts. Passes are free, and a token costs 1 ms. 10 tokens in 20 ms,
    11.176 in 21.96 at length 1, 11.868 in 23.88 at length 2: 509 tokens a second, so the price is
    0.509. The two drafts have chances of 0.4, log-odds -0.405 = 1.2 - 0.6 * 2.676. 10.4 tokens in
    21 ms are fewer than 500 a second, so neither is worth its time: three tenths of the way to 1 in
    the logarithm, 0.509^0.7 = 0.623."""
    found = policy(0.0, token_s=0.001)
    load = replace(TWO, num_requests=10, num_undrafted=8)
    confidences = np.full((2, 1), 1.0 / (1.0 + math.exp(2.676)))
    prices = []
    for _ in range(2):
        rule = found.plan(load).rule
        assert rule is not None
        prices.append(rule.least_survival)
        assert found.choose_widths(confidences, CLASSES, [1, 1]) == [0, 0]
    assert prices == pytest.approx([0.509, 0.623], abs=0.001)


@pytest.mark.parametrize("changes", [{"num_prefilling": 2}, {"num_undrafted": 2}], ids=str)
def test_a_step_in_which_no_request_takes_drafts_leaves_the_price(changes: dict[str, Any]) -> None:
    """The same rule as without that step, and all drafts of that step are verified."""
    rules = []
    for has_step_between in (False, True):
        found = policy(0.003, token_s=0.004)
        found.plan(TWO)
        found.choose_widths(np.full((2, 2), 0.99), CLASSES, [2, 2])
        if has_step_between:
            plan = found.plan(replace(TWO, classes={}, **changes))
            assert (plan.draft_length, plan.rule) == (1, None)
            assert found.choose_widths(np.full((2, 1), 1e-4), CLASSES, [1, 1]) == [1, 1]
        rules.append(found.plan(TWO).rule)
    assert rules[0] == rules[1] != policy(0.003, token_s=0.004).plan(TWO).rule


def test_limits_change_the_next_price_and_not_the_widths() -> None:
    """Where a grammar leaves no token, there is nothing to learn a price from."""
    prices, widths = [], []
    for limits in ([2, 2], [0, 0]):
        found = policy(0.003, token_s=0.001)
        found.plan(TWO)
        widths.append(found.choose_widths(np.full((2, 2), 0.9), CLASSES, limits))
        rule = found.plan(TWO).rule
        assert rule is not None
        prices.append(rule.least_survival)
    assert widths == [[2, 2], [2, 2]]
    assert prices[0] != prices[1] == pytest.approx(0.129, abs=0.001)


@pytest.mark.parametrize("ends_early", [True, False])
def test_dropped_tokens_are_learned_by_their_chances(ends_early: bool) -> None:
    """A confidence of 0.001 has log-odds -6.907; 1.2 - 0.6 * 6.907 = -2.944, a chance of 0.0500.
    The sampled draft is dropped whole: position 1 is (2.4 + 0.05) / 5 = 0.49.

    Of the greedy one the first token is kept, with a chance of 0.925, and the second is dropped,
    which is learned where drafts end early: reached with 0.925, accepted with 0.0462. Else its
    length is chosen for what is verified of it, and only its verdicts count.
    """
    found = policy(0.003, token_s=0.001)
    found.plan(replace(TWO, ends_drafts_early=ends_early))
    confidences = np.array([[0.9, 0.001], [0.001, 0.001]])
    assert found.choose_widths(confidences, CLASSES, [2, 2]) == [1, 0]
    greedy, sampled = (found._acceptance.survival({name: 1}) for name in CLASSES)
    assert sampled[0] == pytest.approx(0.98 * 0.49, abs=1e-4)
    assert greedy[0] == pytest.approx(0.98 * 0.6)
    accept = (4 * 0.6 + 0.0462) / 4.925 if ends_early else 0.6
    assert greedy[1] == pytest.approx(0.98**2 * 0.6 * accept, abs=1e-4)


def test_drafting_ends_where_every_token_is_dropped() -> None:
    """So no draft has a verdict. A chance of 0.05 (see above) is below each step's price, and the
    classes' acceptance, at first that of 30 steps with all drafts accepted, falls to it."""
    found, early = policy(0.003, token_s=0.001), replace(TWO, ends_drafts_early=True)
    teach(found, [MAX, MAX], CLASSES)
    drafted = []
    for step in range(1, 401):
        plan = found.plan(early)
        if plan.rule is None or plan.is_exploring:
            continue
        drafting = DraftingRound(plan.rule, CLASSES)
        num_passes = 0
        while drafting.wants_more():
            drafting.add_pass(np.full(2, 0.001))
            num_passes += 1
        drafted.append(step)
        confidences = np.full((2, num_passes), 0.001)
        assert found.choose_widths(confidences, CLASSES, [num_passes] * 2) == [0, 0]
    assert drafted[0] == 1
    assert drafted[-1] < 100


def test_without_a_rule_all_drafts_are_verified() -> None:
    """Before the first plan, and at a test draft."""
    found = policy(NOT_WORTH_IT_S)
    drafts = np.full((2, 3), 1e-4)
    assert found.choose_widths(drafts, CLASSES, [3, 3]) == [3, 3]
    assert found.plan(TWO).is_exploring
    assert found.choose_widths(drafts, CLASSES, [3, 3]) == [3, 3]


def test_an_empty_batch_has_no_widths() -> None:
    found = policy(0.003)
    found.plan(TWO)
    assert found.choose_widths(np.zeros((0, 3)), (), []) == []


def test_where_drafts_end_early_the_ceiling_is_planned() -> None:
    """Or nothing, where no pass is worth its time."""
    early = replace(TWO, ends_drafts_early=True)
    plan = policy(0.003).plan(early)
    assert plan.draft_length == MAX
    assert plan.rule is not None
    assert plan.rule.ends_early
    assert plan.reason.startswith("up to 8 of 8: acceptance")
    off = policy(NOT_WORTH_IT_S)
    assert [off.plan(early).draft_length for _ in range(3)] == [1, 0, 0]


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
        classes, limits = ["greedy"] * num_requests, [2] * num_requests
        assert set(found.choose_widths(drafts, classes, limits)) <= {0, 1, 2}
    assert all(math.isfinite(plan.expected_tokens_per_s or 0.0) for plan in plans)
