"""What becomes of a draft token that a grammar forbids decides whether the emitted law is right.

The target's law is masked by the grammar, the draft model's is not. A forbidden token is never
accepted, so dropping it before it is verified looks harmless. It is not where drafts are drawn from
a distribution: the token after a rejection comes from max(p - q, 0), the token after a dropped one
from p. What the draft model prefers among the allowed tokens then comes too often, once as an
accepted draft and again as the token after a dropped one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from paceline.runtime.governor.values import DraftRule
from unit.governor.drafting.emission import (
    VOCABULARY,
    Drafted,
    Pair,
    Text,
    distance,
    emitted_laws,
    random_pair,
    target_law,
)
from unit.governor.drafting.test_lossless import ByRuleAfterAllPasses, random_rule

NUM_TOKENS = 2
SEEDS = range(12)


def bound_pair(random: np.random.Generator, *, is_greedy: bool) -> Pair:
    """A pair whose target may not emit one token, another one after each text."""
    pair = random_pair(random, NUM_TOKENS, is_greedy=is_greedy)
    for probs in pair.target.values():
        probs[random.integers(VOCABULARY)] = 0.0
        probs /= probs.sum()
    return pair


def num_allowed(pair: Pair, text: Text) -> int:
    """Tokens before the first forbidden one."""
    for position, token in enumerate(text):
        if pair.target[text[:position]][token] == 0.0:
            return position
    return len(text)


class Dropping(ByRuleAfterAllPasses):
    """vLLM's synchronous scheduler: the drafts end before the first forbidden token."""

    num_forbidden = 0
    """Forbidden tokens that are verified."""

    def __init__(self, rule: DraftRule, pair: Pair) -> None:
        super().__init__(rule)
        self._pair = pair

    def widths(self, drafted: Drafted) -> Sequence[int]:
        [width], [text] = super().widths(drafted), drafted.texts
        return [min(width, num_allowed(self._pair, text) + self.num_forbidden)]


class Rejecting(Dropping):
    """The first forbidden token is verified, and rejected; what follows it does not matter."""

    num_forbidden = 1


def distance_of(keeping: type[Dropping], seed: int, *, is_greedy: bool) -> float:
    """Total variation between the emitted law and the target's, under a random rule of widths."""
    random = np.random.default_rng(seed)
    pair = bound_pair(random, is_greedy=is_greedy)
    rule = random_rule(random)
    [law] = emitted_laws([pair], keeping(rule, pair), NUM_TOKENS)
    return distance(law, target_law(pair, NUM_TOKENS))


def test_dropping_a_forbidden_token_by_hand() -> None:
    """The target draws 0 or 1 evenly, the draft model 0 or the forbidden 2.

    A rejected 2 is followed by 1, so 0 and 1 stay even. A dropped 2 is followed by either: 0 comes
    with probability 1/2 + 1/2 * 1/2.
    """
    even, preferred = np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5])
    texts: list[Text] = [(), (0,), (1,), (2,)]
    pair = Pair(dict.fromkeys(texts, even), dict.fromkeys(texts, preferred), is_greedy=False)
    everything = DraftRule({}, 0.0, (0.0,))
    [dropped] = emitted_laws([pair], Dropping(everything, pair), 1)
    [rejected] = emitted_laws([pair], Rejecting(everything, pair), 1)
    assert dropped.sum(axis=1).tolist() == pytest.approx([0.75, 0.25, 0.0])
    assert rejected.sum(axis=1).tolist() == pytest.approx([0.5, 0.5, 0.0])


def test_dropping_forbidden_tokens_of_sampled_drafts_is_biased() -> None:
    distances = [distance_of(Dropping, seed, is_greedy=False) for seed in SEEDS]
    assert max(distances) > 0.1
    assert sum(found > 0.01 for found in distances) >= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_rejecting_the_first_forbidden_token_is_exact(seed: int) -> None:
    assert distance_of(Rejecting, seed, is_greedy=False) < 1e-12
    assert distance_of(Rejecting, seed, is_greedy=True) < 1e-12


@pytest.mark.parametrize("seed", SEEDS)
def test_dropping_forbidden_tokens_of_greedy_drafts_is_exact(seed: int) -> None:
    """They are a function of the text, as those of n-gram drafters are."""
    assert distance_of(Dropping, seed, is_greedy=True) < 1e-12
