"""Which draft length `goodput` plans, on tables with computed optima (`computed_tables`)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from paceline.runtime.governor.contract.samples import ordinary_sample
from paceline.runtime.governor.policies.goodput import GoodputPolicy
from paceline.runtime.governor.values import DraftPlan, StepSample
from unit.governor.policies.computed_tables import LENGTHS, NOT_WORTH_IT_S, ONE, policy, teach
from unit.governor.steady import MAX


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


@pytest.mark.parametrize("reports_confidences", [False, True])
def test_without_a_unit_no_time_is_stated_and_none_is_compared(reports_confidences: bool) -> None:
    """Without a table, costs are proportions until the first clean step, of 30 ms. An objective of
    1 ms leaves no length from then on."""
    found = GoodputPolicy(MAX, max_step_s=0.001)
    load = replace(ONE, reports_confidences=reports_confidences)
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
    "a ceiling of 0": {"max_draft_length": 0},
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
                assert plan.draft_length == 0
                assert plan.reason in (
                    "no request takes drafts",
                    "no requests or no drafting allowed",
                )
                assert not plan.is_exploring
        drafted.append(plans)
    assert drafted[0] == drafted[1]
    assert sum(drafted[0]) > 3


CHANGES: dict[str, dict[str, Any]] = {
    "more requests": {"num_requests": 2},
    "a class that accepts more": {"classes": {"easy": 1}},
    "a request without drafts": {"num_requests": 2, "num_undrafted": 1},
    "other lengths": {"allowed_lengths": (0, 1)},
    "a lower ceiling": {"max_draft_length": 3},
    "requests that wait": {"num_waiting": 5},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_plan_to_rest_holds_for_the_load_that_it_was_made_for(changes: dict[str, Any]) -> None:
    """Each step is planned anew after a change, as by a policy that has not rested before it."""
    found = policy(NOT_WORTH_IT_S)
    teach(found, [0], classes=("",))
    teach(found, [MAX], classes=("easy",))
    for _ in range(40):
        found.plan(ONE)
    planned = []
    found._new_plan = lambda load: planned.append(load) or DraftPlan(0, "")  # type: ignore
    found.plan(replace(ONE, **changes))
    assert planned == [replace(ONE, **changes)]


def test_verdicts_end_a_rest() -> None:
    """Text has become easy: the step after the verdicts that show it drafts."""
    found = policy(0.003)
    teach(found, [0])
    for _ in range(100):
        if found._rest is not None:
            break
        found.plan(ONE)
    assert found.plan(ONE).draft_length == 0
    teach(found, [MAX])
    assert found.plan(ONE).draft_length > 0


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
