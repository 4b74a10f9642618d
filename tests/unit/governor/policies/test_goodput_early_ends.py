"""When the drafts of `goodput` end, and how many of them it has verified, on tables with computed
optima (`computed_tables`)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.governor.contract.samples import ordinary_sample, rich_load
from paceline.runtime.governor.drafting.drafting_round import DraftingRound
from paceline.runtime.governor.policies import goodput
from paceline.runtime.governor.policies.goodput import GoodputPolicy
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from unit.governor.policies.computed_tables import NOT_WORTH_IT_S, ONE, policy, teach
from unit.governor.steady import MAX

TWO = rich_load(MAX, num_requests=2, context_tokens=0)
CLASSES = ("greedy", "sampled")


@pytest.fixture(autouse=True)
def short_steps_read_confidences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables here have steps of 20 to 40 ms, as their optima are easy to compute."""
    monkeypatch.setattr(goodput, "_LEAST_CONFIDENT_STEP_S", 0.0)


def test_confidences_are_read_where_a_step_is_long_enough_to_pay_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The best length is 2: 26 ms, and later 39, as steps turn out half as long again."""
    monkeypatch.setattr(goodput, "_LEAST_CONFIDENT_STEP_S", 0.03)
    found = policy(0.003)
    assert found.plan(TWO).rule is None
    assert found.plan(TWO).draft_length == 2
    for _ in range(30):
        found.observe(ordinary_sample(verified_draft_tokens=0, draft_length=0, duration_s=0.03,
                                      num_requests=2, context_tokens=0, drafted=(), accepted=(),
                                      classes=()))  # fmt: skip
    assert found.plan(TWO).rule is not None


def test_a_rule_comes_with_confidences_only() -> None:
    found = policy(0.003)
    assert found.plan(replace(TWO, reports_confidences=False)).rule is None
    rule = found.plan(TWO).rule
    assert rule is not None
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
    21 ms are fewer than 500 a second, so neither is worth its time, and one more costs half a
    token: three tenths of the way to 0.5 in the logarithm, 0.506."""
    found = policy(0.0, token_s=0.001)
    load = replace(TWO, num_requests=10, num_undrafted=8)
    confidences = np.full((2, 1), 1.0 / (1.0 + math.exp(2.676)))
    prices = []
    for _ in range(2):
        rule = found.plan(load).rule
        assert rule is not None
        prices.append(rule.least_survival)
        assert found.choose_widths(confidences, CLASSES, [1, 1]) == [0, 0]
    assert prices == pytest.approx([0.509, 0.506], abs=0.001)


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


def test_dropped_tokens_are_learned_by_their_chances() -> None:
    """A confidence of 0.001 has log-odds -6.907; 1.2 - 0.6 * 6.907 = -2.944, a chance of 0.0500.
    The sampled draft is dropped whole: position 1 is (2.4 + 0.05) / 5 = 0.49.

    Of the greedy one the first token is kept, with a chance of 0.925, and the second is dropped:
    reached with 0.925, accepted with 0.0462.
    """
    found = policy(0.003, token_s=0.001)
    found.plan(TWO)
    confidences = np.array([[0.9, 0.001], [0.001, 0.001]])
    assert found.choose_widths(confidences, CLASSES, [2, 2]) == [1, 0]
    greedy, sampled = (found._acceptance.survival({name: 1}) for name in CLASSES)
    assert sampled[0] == pytest.approx(0.98 * 0.49, abs=1e-4)
    assert greedy[0] == pytest.approx(0.98 * 0.6)
    accept = (4 * 0.6 + 0.0462) / 4.925
    assert greedy[1] == pytest.approx(0.98**2 * 0.6 * accept, abs=1e-4)


def test_drafting_ends_where_every_token_is_dropped() -> None:
    """So no draft has a verdict. A chance of 0.05 (see above) is below each step's price, and the
    classes' acceptance, at first that of 30 steps with all drafts accepted, falls to it."""
    found = policy(0.003, token_s=0.001)
    teach(found, [MAX, MAX], CLASSES)
    drafted = []
    for step in range(1, 401):
        plan = found.plan(TWO)
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


def test_where_drafts_end_early_they_may_be_longer_than_the_best_length() -> None:
    """By up to a tenth in value: 2 tokens give 74 a second, 4 give 70 and 5 give 66. Or nothing is
    drafted, where no pass is worth its time."""
    plan = policy(0.003).plan(TWO)
    assert plan.draft_length == 4
    assert plan.rule is not None
    assert plan.reason.startswith("up to 4 of 8: acceptance")
    assert policy(0.0001).plan(TWO).draft_length == MAX
    off = policy(NOT_WORTH_IT_S)
    assert [off.plan(TWO).draft_length for _ in range(3)] == [1, 0, 0]


def test_an_objective_holds_where_drafts_end_early_too() -> None:
    """20 ms and 1 ms for each pass."""
    found = policy(0.001, max_step_s=0.025)
    teach(found, [MAX])
    assert found.plan(replace(ONE, reports_confidences=True)).draft_length == 5


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
