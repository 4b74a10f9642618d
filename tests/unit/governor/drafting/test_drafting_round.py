"""Which tokens of a step are verified, and when drafting ends."""

from __future__ import annotations

import doctest
import math
from collections.abc import Sequence

import numpy as np
import pytest

from paceline.runtime.governor.acceptance.per_class import ClassRows
from paceline.runtime.governor.drafting import drafting_round as module
from paceline.runtime.governor.drafting.drafting_round import DraftingRound, survival_of, widths_of
from paceline.runtime.governor.values import DraftRule

SAME = {"greedy": (0.0, 1.0)}
"""The chance of acceptance is the confidence."""


def rule(least_survival: float = 0.2, pass_tokens: tuple[float, ...] = (0.0,) * 7) -> DraftRule:
    return DraftRule(SAME, least_survival, pass_tokens)


def drafted(rule: DraftRule, *confidences: Sequence[float]) -> DraftingRound:
    """After one pass for each of `confidences`, of greedy requests."""
    found = DraftingRound(rule, ["greedy"] * len(confidences[0]))
    for column in confidences:
        found.add_pass(np.array(column))
    return found


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(module).failed == 0


def widths(rule: DraftRule, confidences: Sequence[Sequence[float]]) -> list[int]:
    """Of greedy requests with these confidences, (num_requests, num_passes)."""
    survival = survival_of(rule, ClassRows(["greedy"] * len(confidences)), np.array(confidences))
    found: list[int] = widths_of(rule, survival).tolist()
    return found


def test_tokens_are_verified_while_their_chance_is_worth_it() -> None:
    """0.9, 0.72 and 0.432 of the first request; 0.4, then less, of the second."""
    confidences = np.array([[0.9, 0.8, 0.6], [0.4, 0.99, 0.99]])
    survival = survival_of(rule(0.43), ClassRows(["greedy", "greedy"]), confidences)
    assert survival == pytest.approx(np.array([[0.9, 0.72, 0.432], [0.4, 0.396, 0.39204]]))
    assert widths_of(rule(0.43), survival).tolist() == [3, 0]


def test_one_request_may_keep_a_part() -> None:
    assert widths(rule(0.5), [[0.9, 0.8, 0.6]]) == [2]


def test_a_token_at_the_price_is_kept() -> None:
    assert widths_of(rule(0.5), np.array([[0.5, 0.25], [0.49, 0.49]])).tolist() == [1, 0]


def test_an_empty_batch_has_no_widths_and_wants_no_pass() -> None:
    survival = survival_of(rule(), ClassRows([]), np.zeros((0, 3)))
    assert survival.shape == (0, 3)
    assert widths_of(rule(), survival).tolist() == []
    assert not drafted(rule(), []).wants_more()


def test_before_the_first_pass_nothing_is_verified_and_one_is_wanted() -> None:
    survival = survival_of(rule(), ClassRows(["greedy", "greedy"]), np.zeros((2, 0)))
    assert survival.shape == (2, 0)
    assert widths_of(rule(), survival).tolist() == [0, 0]
    assert DraftingRound(rule(), ["greedy", "greedy"]).wants_more()


def test_confidences_are_mapped_by_class() -> None:
    """logit(0.9) = 2.197; -1 + 0.5 * 2.197 = 0.0986, a chance of 0.525. A class without a map is
    taken by its confidence."""
    maps = {"greedy": (0.0, 1.0), "sampled": (-1.0, 0.5)}
    mapped = DraftRule(maps, 0.5, ())
    survival = survival_of(
        mapped, ClassRows(["greedy", "sampled", "unknown"]), np.full((3, 1), 0.9)
    )
    assert survival[:, 0] == pytest.approx([0.9, 0.5246, 0.9], abs=1e-4)


def test_each_pass_goes_by_the_map_of_its_class() -> None:
    """A pass costs 0.1 tokens, at a price of 0.5. Confidence 0.95 has log-odds 2.944. Greedy: the
    next ones 0.3 + 0.8 * 2.944 = 2.656, a chance of 0.934: it survives 0.888, 0.388 above the
    price. Sampled: -1 + 0.5 * 2.944 = 0.472, a chance of 0.616; the next one at most 0.616."""
    maps = {"greedy": (0.0, 1.0), "sampled": (-1.0, 0.5)}
    mapped = DraftRule(maps, 0.5, (0.1, 100.0))
    wants_more = {}
    for name in maps:
        found = DraftingRound(mapped, [name])
        found.add_pass(np.array([0.95]))
        wants_more[name] = found.wants_more()
    assert wants_more == {"greedy": True, "sampled": False}


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
    assert widths(rule(0.2), [[float("nan")], [0.0], [1.0]]) == [0, 0, 1]


@pytest.mark.parametrize("least_survival", [-0.1, math.inf, math.nan])
def test_a_price_that_is_no_number_of_tokens_is_refused(least_survival: float) -> None:
    with pytest.raises(ValueError, match="it must be finite and not negative"):
        rule(least_survival)


def test_a_price_of_nothing_keeps_all() -> None:
    """Also tokens without any chance."""
    assert widths(rule(0.0), [[0.0, 0.0]]) == [2]
