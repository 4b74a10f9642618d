"""Which tokens of a step are verified, and when drafting ends."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import numpy as np
import pytest

from paceline.governor.drafting import drafting_round as module
from paceline.governor.drafting.draft_rule import DraftRule
from paceline.governor.drafting.drafting_round import DraftingRound

SAME = {"greedy": (0.0, 1.0)}
"""The chance of acceptance is the confidence."""


def rule(
    least_survival: float = 0.2,
    pass_tokens: tuple[float, ...] = (0.0,) * 7,
    *,
    ends_early: bool = True,
) -> DraftRule:
    return DraftRule(SAME, least_survival, pass_tokens, ends_early)


def drafted(rule: DraftRule, *confidences: Sequence[float]) -> DraftingRound:
    """After one pass for each of `confidences`, of greedy requests."""
    found = DraftingRound(rule, ["greedy"] * len(confidences[0]))
    for column in confidences:
        found.add_pass(np.array(column))
    return found


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(module).failed == 0


def test_tokens_are_verified_while_their_chance_is_worth_it() -> None:
    """0.9, 0.72 and 0.432 of the first request; 0.4, then less, of the second."""
    found = drafted(rule(0.43), [0.9, 0.4], [0.8, 0.99], [0.6, 0.99])
    assert found.survival == pytest.approx(np.array([[0.9, 0.72, 0.432], [0.4, 0.396, 0.39204]]))
    assert found.widths() == [3, 0]


def test_one_request_may_keep_a_part() -> None:
    assert drafted(rule(0.5), [0.9], [0.8], [0.6]).widths() == [2]


def test_an_empty_batch_has_no_widths_and_wants_no_pass() -> None:
    found = drafted(rule(), [])
    assert found.widths() == []
    assert not found.wants_more()


def test_before_the_first_pass_nothing_is_verified_and_one_is_wanted() -> None:
    found = DraftingRound(rule(), ["greedy", "greedy"])
    assert found.widths() == [0, 0]
    assert found.survival.shape == (2, 0)
    assert found.wants_more()


def test_confidences_are_mapped_by_class() -> None:
    """logit(0.9) = 2.197; -1 + 0.5 * 2.197 = 0.0986, a chance of 0.525. A class without a map is
    taken by its confidence."""
    maps = {"greedy": (0.0, 1.0), "sampled": (-1.0, 0.5)}
    found = DraftingRound(DraftRule(maps, 0.5, (), False), ["greedy", "sampled", "unknown"])
    found.add_pass(np.array([0.9, 0.9, 0.9]))
    assert found.survival[:, 0] == pytest.approx([0.9, 0.5246, 0.9], abs=1e-4)


def test_drafting_does_not_end_where_it_may_not() -> None:
    assert drafted(rule(0.9, (100.0,) * 7, ends_early=False), [0.01]).wants_more()


@pytest.mark.parametrize(("pass_tokens", "wants_more"), [(0.30, True), (0.35, False)])
def test_a_pass_must_be_worth_its_time(pass_tokens: float, wants_more: bool) -> None:
    """Confidence 0.8 has log-odds 1.386, the next 0.3 + 0.8 * 1.386 = 1.409, a chance of 0.804: it
    survives 0.643, 0.343 above the price of 0.3. The pass after that is beyond price."""
    found = drafted(rule(0.3, (pass_tokens, 100.0)), [0.8])
    assert found.wants_more() == wants_more


def test_the_gain_of_a_pass_is_that_of_all_requests() -> None:
    """Three times 0.343; the doubtful ones add nothing."""
    assert drafted(rule(0.3, (1.02, 100.0)), [0.8, 0.8, 0.8, 0.1]).wants_more()
    assert not drafted(rule(0.3, (1.04, 100.0)), [0.8, 0.8, 0.8, 0.1]).wants_more()


def test_two_passes_together_may_be_worth_their_time() -> None:
    """The first passes of a draft model cost more: 0.343 and 0.219 for 0.4 and 0.1 tokens."""
    assert drafted(rule(0.3, (0.4, 0.1)), [0.8]).wants_more()
    assert not drafted(rule(0.3, (0.4, 0.2)), [0.8]).wants_more()


def test_after_the_last_pass_none_is_wanted() -> None:
    """Two passes at most: one further pass has a price."""
    assert not drafted(rule(0.1, (0.0,)), [0.9], [0.9]).wants_more()


def test_confidences_of_nothing_keep_nothing() -> None:
    """NaN and 0 count alike; 1 keeps."""
    found = drafted(rule(0.2), [float("nan"), 0.0, 1.0])
    assert found.widths() == [0, 0, 1]
