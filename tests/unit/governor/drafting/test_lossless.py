"""Ending drafts and verifying parts of them leaves the law of the emitted tokens unchanged.

The law is enumerated, not sampled (`emission`), so it must be the target's to the last digits. Two
rules that look alike are biased, and the enumeration shows it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import pytest

from paceline.runtime.governor.acceptance.per_class import ClassRows
from paceline.runtime.governor.contract.samples import rich_load
from paceline.runtime.governor.drafting.drafting_round import DraftingRound, survival_of, widths_of
from paceline.runtime.governor.policies.goodput import GoodputPolicy
from paceline.runtime.governor.values import DraftRule
from unit.governor.drafting.emission import (
    Drafted,
    Keeping,
    Pair,
    distance,
    emitted_laws,
    random_pair,
    target_law,
)

CLASSES = ("greedy", "sampled")


class ByRule:
    """As the engine does it."""

    def __init__(self, rule: DraftRule) -> None:
        self._rule = rule

    def wants_more(self, drafted: Drafted) -> bool:
        drafting = DraftingRound(self._rule, CLASSES[: len(drafted.confidences[0])])
        for column in drafted.confidences:
            drafting.add_pass(column)
        return drafting.wants_more()

    def widths(self, drafted: Drafted) -> Sequence[int]:
        widths: list[int] = widths_of(self._rule, self.survival(drafted.confidences)).tolist()
        return widths

    def survival(self, confidences: Sequence[np.ndarray]) -> np.ndarray:
        """Shape (num_requests, num_passes)."""
        rows = np.stack(confidences, axis=1)
        return survival_of(self._rule, ClassRows(CLASSES[: len(rows)]), rows)


class ByRuleAfterAllPasses(ByRule):
    """Drafting does not end early; the rule decides what is verified."""

    def wants_more(self, drafted: Drafted) -> bool:
        return True


class ByPolicy(ByRule):
    """The widths are those of a policy with a past."""

    def __init__(self, policy: GoodputPolicy, rule: DraftRule) -> None:
        super().__init__(rule)
        self._policy = policy

    def widths(self, drafted: Drafted) -> Sequence[int]:
        policy = copy.deepcopy(self._policy)
        confidences = np.stack(drafted.confidences, axis=1)
        num_requests, num_passes = confidences.shape
        limits = [num_passes] * num_requests
        return policy.choose_widths(confidences, CLASSES[:num_requests], limits)


class ByOwnProbability(ByRuleAfterAllPasses):
    """Biased: a token is kept for its own probability, which depends on the token."""

    def widths(self, drafted: Drafted) -> Sequence[int]:
        widths: list[int] = widths_of(self._rule, self.survival(drafted.own)).tolist()
        return widths


class ByThisStepsPrice(ByRuleAfterAllPasses):
    """Biased: the tokens that are worth their time by this step's own drafts, where two tokens cost
    no more than one. Whether the first is kept then depends on what was drafted after it.

    (A fixed number of the most likely tokens would be exact: how many are more likely than a token
    depends on its own draft up to it and on other requests.)
    """

    def widths(self, drafted: Drafted) -> Sequence[int]:
        survival = self.survival(drafted.confidences)
        falling = np.sort(survival.ravel())[::-1]
        yields = len(survival) + np.concatenate(([0.0], np.cumsum(falling)))
        stairs = [1.0 + 0.3 * ((number + 1) // 2) for number in range(len(yields))]
        number = int((yields / stairs).argmax())
        price = falling[number - 1] if number else 1.0
        widths: list[int] = (survival >= price).sum(axis=1).tolist()
        return widths


def random_rule(random: np.random.Generator) -> DraftRule:
    """Any maps and prices."""
    maps = {name: (random.normal(0.0, 1.0), random.uniform(0.2, 1.5)) for name in CLASSES}
    pass_tokens = tuple(random.uniform(0.0, 0.4, 2).tolist())
    return DraftRule(maps, random.uniform(0.05, 0.6), pass_tokens)


def greatest_distance(pairs: Sequence[Pair], keeping: Keeping, num_tokens: int) -> float:
    """From the target's law, over the requests."""
    laws = emitted_laws(pairs, keeping, num_tokens)
    return max(
        distance(law, target_law(pair, num_tokens)) for law, pair in zip(laws, pairs, strict=True)
    )


@pytest.mark.parametrize("is_greedy", [False, True])
@pytest.mark.parametrize(("num_requests", "num_tokens"), [(1, 3), (2, 2)])
@pytest.mark.parametrize("seed", range(12))
def test_the_emitted_law_is_the_target_s(
    num_requests: int, num_tokens: int, is_greedy: bool, seed: int
) -> None:
    """Whatever the models, the maps and the price."""
    random = np.random.default_rng(seed)
    pairs = [random_pair(random, num_tokens, is_greedy=is_greedy) for _ in range(num_requests)]
    rule = random_rule(random)
    keeping = ByRule(rule) if seed % 3 else ByRuleAfterAllPasses(rule)
    assert greatest_distance(pairs, keeping, num_tokens) < 1e-12


def test_a_batch_of_two_with_three_tokens_each_is_exact() -> None:
    random = np.random.default_rng(5)
    pairs = [random_pair(random, 3) for _ in range(2)]
    assert greatest_distance(pairs, ByRule(random_rule(random)), 3) < 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_widths_that_the_policy_chooses_are_exact(seed: int) -> None:
    """Its price comes from the step before; this step's own drafts move the next price only."""
    random = np.random.default_rng(seed)
    pairs = [random_pair(random, 2) for _ in range(2)]
    policy = GoodputPolicy(2)
    load = rich_load(2, num_requests=2)
    policy.plan(load)
    policy.choose_widths(random.random((2, 2)), CLASSES, [2, 2])
    rule = policy.plan(load).rule
    assert rule is not None
    assert greatest_distance(pairs, ByPolicy(policy, rule), 2) < 1e-12


def test_a_rule_keeps_some_drafts_and_drops_others() -> None:
    """So that the tests above have something to find: over their rules every width occurs."""
    widths = set()
    for seed in range(12):
        random = np.random.default_rng(seed)
        pairs = [random_pair(random, 3)]
        keeping = ByRule(random_rule(random))

        class Noting:
            wants_more = staticmethod(keeping.wants_more)

            @staticmethod
            def widths(drafted: Drafted, keeping: ByRule = keeping) -> Sequence[int]:
                found = keeping.widths(drafted)
                widths.update(found)
                return found

        emitted_laws(pairs, Noting, 3)
    assert widths == {0, 1, 2, 3}


def test_keeping_by_the_drawn_token_s_own_probability_is_biased() -> None:
    distances = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        pairs = [random_pair(random, 2)]
        keeping = ByOwnProbability(random_rule(random))
        distances.append(greatest_distance(pairs, keeping, 2))
    assert max(distances) > 0.1
    assert sum(found > 0.01 for found in distances) >= 6


def test_a_price_of_this_step_s_own_drafts_is_biased() -> None:
    distances = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        pairs = [random_pair(random, 2) for _ in range(2)]
        keeping = ByThisStepsPrice(random_rule(random))
        distances.append(greatest_distance(pairs, keeping, 2))
    assert max(distances) > 0.01
