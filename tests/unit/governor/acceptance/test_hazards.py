"""Offers and acceptance by position, from a few verdicts, worked out."""

from __future__ import annotations

import doctest

import pytest

from paceline.governor.acceptance import hazards as module
from paceline.governor.acceptance.hazards import Hazards


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(module).failed == 0


def test_a_rejection_says_nothing_about_later_positions() -> None:
    """Prior 0.6 of weight 4. Position 1: (2.4 + 1) / 5 = 0.68. Position 2 was rejected: 4 * 0.68 /
    5 = 0.544. Position 3 has no verdict: as the one before."""
    hazards = Hazards(3)
    hazards.learn({(3, 3, 1): 1})
    assert hazards.accept == pytest.approx([0.68, 0.544, 0.544])


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
    assert hazards.accept == pytest.approx([0.68, 0.68])
    assert hazards.offered[1] / hazards.offered[0] == pytest.approx(0.98)


def test_a_drafter_that_seldom_offers_is_seen_at_the_first_missing_token() -> None:
    """Nothing offered of four requested: (1.96 + 0) / 3 at position 1, later ones unknown, and
    nothing about acceptance."""
    hazards = Hazards(4)
    hazards.learn({(4, 0, 0): 1})
    assert hazards.offered[0] == pytest.approx(1.96 / 3)
    assert hazards.offered[1] / hazards.offered[0] == pytest.approx(0.98)
    assert hazards.accept == pytest.approx([0.6] * 4)


def test_what_matches_is_accepted_though_little_matches() -> None:
    """40 % of the drafts have four tokens, all accepted; the others none."""
    hazards = Hazards(4)
    for _ in range(200):
        hazards.learn({(4, 4, 4): 0.4, (4, 0, 0): 0.6})
    assert hazards.offered == pytest.approx([0.4] * 4, abs=0.02)
    assert min(hazards.accept) > 0.8


def test_offers_that_were_not_requested_are_no_more_than_certain() -> None:
    hazards = Hazards(3)
    for _ in range(100):
        hazards.learn({(0, 3, 3): 4})
    assert max(hazards.offered) <= 1.0


def test_tokens_beyond_the_ceiling_are_left_out() -> None:
    hazards = Hazards(2)
    hazards.learn({(9, 9, 9): 1})
    assert hazards.accept == pytest.approx([0.68, (4 * 0.68 + 1) / 5])


def test_the_verdicts_of_one_step_count_as_eight() -> None:
    """(2.4 + 8) / 12, however many requests."""
    for num_requests in (8, 100, 4096):
        hazards = Hazards(1)
        hazards.learn({(1, 1, 1): num_requests})
        assert hazards.accept == pytest.approx([0.866667])


def test_memory_fades_over_24_verdicts() -> None:
    """1 / (1 - e^(-1/24)) = 24.5 verdicts in memory, all accepted: (2.4 + 24.5) / 28.5. After 24
    rejections e^-1 of them are left: (2.4 + 9.0) / 28.5."""
    hazards = Hazards(1)
    for _ in range(1000):
        hazards.learn({(1, 1, 1): 1})
    assert hazards.accept == pytest.approx([0.944], abs=0.001)
    for _ in range(24):
        hazards.learn({(1, 1, 0): 1})
    assert hazards.accept == pytest.approx([0.400], abs=0.001)
