"""Offers and acceptance by position, from a few verdicts, worked out."""

from __future__ import annotations

import doctest
import math
from itertools import pairwise

import pytest

from paceline.runtime.governor.acceptance import hazards as module
from paceline.runtime.governor.acceptance.hazards import Hazards


def accept(hazards: Hazards) -> list[float]:
    """P(accepted | offered, the one before accepted) of each position: from the two products."""
    ratios = [s / offer for s, offer in zip(hazards.survival, hazards.offered, strict=True)]
    return [now / before for before, now in pairwise([1.0, *ratios])]


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(module).failed == 0


def test_a_rejection_says_nothing_about_later_positions() -> None:
    """Prior 0.6 of weight 4. Position 1: (2.4 + 1) / 5 = 0.68. Position 2 was rejected: 4 * 0.68 /
    5 = 0.544. Position 3 has no verdict: as the one before."""
    hazards = Hazards(3)
    hazards.learn({(3, 3, 1): 1})
    assert accept(hazards) == pytest.approx([0.68, 0.544, 0.544])


def test_survival_is_the_product_of_offers_and_acceptance() -> None:
    """The prior offer of 0.98 has weight 2: (1.96 + 1) / 3 = 0.98667 at both positions."""
    hazards = Hazards(2)
    hazards.learn({(2, 2, 1): 1})
    assert hazards.offered == pytest.approx([0.986667, 0.986667**2])
    assert hazards.survival == pytest.approx([0.986667 * 0.68, 0.986667**2 * 0.68 * 0.544])


def test_positions_that_were_not_requested_have_no_verdict() -> None:
    """One token requested, offered and accepted; position 2 follows position 1."""
    hazards = Hazards(2)
    hazards.learn({(1, 1, 1): 1})
    assert accept(hazards) == pytest.approx([0.68, 0.68])
    assert hazards.offered[1] / hazards.offered[0] == pytest.approx(0.98)


def test_a_drafter_that_seldom_offers_is_seen_at_the_first_missing_token() -> None:
    """Nothing offered of four requested: (1.96 + 0) / 3 at position 1, later ones unknown, and
    nothing about acceptance."""
    hazards = Hazards(4)
    hazards.learn({(4, 0, 0): 1})
    assert hazards.offered[0] == pytest.approx(1.96 / 3)
    assert hazards.offered[1] / hazards.offered[0] == pytest.approx(0.98)
    assert accept(hazards) == pytest.approx([0.6] * 4)


def test_what_matches_is_accepted_though_little_matches() -> None:
    """40 % of the drafts have four tokens, all accepted; the others none."""
    hazards = Hazards(4)
    for _ in range(200):
        hazards.learn({(4, 4, 4): 0.4, (4, 0, 0): 0.6})
    assert hazards.offered == pytest.approx([0.4] * 4, abs=0.02)
    assert min(accept(hazards)) > 0.8


def test_offers_that_were_not_requested_are_no_more_than_certain() -> None:
    hazards = Hazards(3)
    for _ in range(100):
        hazards.learn({(0, 3, 3): 4})
    assert max(hazards.offered) <= 1.0


def test_tokens_beyond_the_ceiling_are_left_out() -> None:
    hazards = Hazards(2)
    hazards.learn({(9, 9, 9): 1})
    assert accept(hazards) == pytest.approx([0.68, (4 * 0.68 + 1) / 5])


def test_the_verdicts_of_one_step_count_as_eight() -> None:
    """(2.4 + 8) / 12, however many requests."""
    for num_requests in (8, 100, 4096):
        hazards = Hazards(1)
        hazards.learn({(1, 1, 1): num_requests})
        assert accept(hazards) == pytest.approx([0.866667])


def test_memory_fades_over_24_verdicts() -> None:
    """1 / (1 - e^(-1/24)) = 24.5 verdicts in memory, all accepted: (2.4 + 24.5) / 28.5. After 24
    rejections e^-1 of them are left: (2.4 + 9.0) / 28.5."""
    hazards = Hazards(1)
    for _ in range(1000):
        hazards.learn({(1, 1, 1): 1})
    assert accept(hazards) == pytest.approx([0.944], abs=0.001)
    for _ in range(24):
        hazards.learn({(1, 1, 0): 1})
    assert accept(hazards) == pytest.approx([0.400], abs=0.001)


def test_dropped_tokens_count_by_their_chances() -> None:
    """Two drafts of which nothing is verified, with survivals 0.5 and 0.25: at position 1 two
    tokens are reached and one is accepted, at position 2 one and a half. (2.4 + 1) / 6 = 0.5667,
    and (4 * 0.5667 + 0.5) / 5 = 0.5533. They say nothing about offers."""
    hazards = Hazards(2)
    hazards.learn_dropped([2.0, 1.0], [1.0, 0.5], num_drafts=2, num_empty=2)
    assert accept(hazards) == pytest.approx([3.4 / 6, (4 * 3.4 / 6 + 0.5) / 5])
    assert hazards.offered == pytest.approx([0.98, 0.98**2])


def test_dropped_tokens_without_a_chance_count_as_rejections() -> None:
    dropped, rejected = Hazards(1), Hazards(1)
    for _ in range(20):
        dropped.learn_dropped([1.0], [0.0], num_drafts=1, num_empty=1)
        rejected.learn({(1, 1, 0): 1})
    assert accept(dropped) == pytest.approx(accept(rejected))


def test_a_draft_that_is_verified_in_part_is_forgotten_for_once() -> None:
    """By its verdicts, and not by its dropped tokens. The first draft's token is accepted. Of the
    second one, the first token is accepted, and the dropped one had half a chance. So e^(-1/24) of
    the verdict before is left, and of the dropped token, which was known before the verdict."""
    hazards = Hazards(2)
    hazards.learn({(1, 1, 1): 1})
    hazards.learn_dropped([0.0, 1.0], [0.0, 0.5], num_drafts=1, num_empty=0)
    hazards.learn({(1, 1, 1): 1})
    kept = math.exp(-1 / 24)
    first = (2.4 + 1 + kept) / (4 + 1 + kept)
    assert accept(hazards) == pytest.approx([first, (4 * first + 0.5 * kept) / (4 + kept)])


def test_the_dropped_tokens_of_one_step_count_as_those_of_eight_drafts() -> None:
    """(2.4 + 8 * 0.5) / 12, however many requests."""
    for num_requests in (8, 100, 4096):
        hazards = Hazards(1)
        hazards.learn_dropped(
            [num_requests], [0.5 * num_requests], num_drafts=num_requests, num_empty=num_requests
        )
        assert accept(hazards) == pytest.approx([6.4 / 12])


def test_passes_that_did_not_run_have_no_dropped_tokens() -> None:
    """One pass of three: positions 2 and 3 follow position 1, (2.4 + 0.1) / 5."""
    hazards = Hazards(3)
    hazards.learn_dropped([1.0], [0.1], num_drafts=1, num_empty=1)
    assert accept(hazards) == pytest.approx([0.5] * 3)
