"""Memories of verdicts against computed expectations."""

from __future__ import annotations

import math

import pytest

from paceline.governor.estimates.verdict_memory import VerdictMemory


def test_the_longest_memory_expects_the_acceptance_of_the_position_before() -> None:
    """Position 1: (2 * 0.6 + 3) / (2 + 4); position 2: (2 * 0.7 + 1) / (2 + 3)."""
    memory = VerdictMemory(3, 96.0)
    memory.learn([4.0, 3.0, 0.0], [3.0, 1.0, 0.0], 4.0)
    memory.refresh(None)
    assert memory.accept == pytest.approx([0.7, 0.48, 0.48])


def test_a_shorter_memory_is_shrunk_towards_the_longer_one() -> None:
    longer, shorter = VerdictMemory(1, 96.0), VerdictMemory(1, 12.0)
    longer.learn([18.0], [9.6], 18.0)
    longer.refresh(None)
    shorter.learn([4.0], [4.0], 4.0)
    shorter.refresh(longer)
    assert longer.accept == pytest.approx([0.54])
    assert shorter.accept == pytest.approx([(4 * 0.54 + 4) / 8])


def test_a_departure_carries_on_to_deeper_positions_as_odds() -> None:
    """Odds fall from 1 to 1/3 at position 1; at position 2 they fall from 4 to 4/3."""
    longer, shorter = VerdictMemory(2, 96.0), VerdictMemory(2, 12.0)
    longer.accept = [0.5, 0.8]
    shorter.learn([4.0, 0.0], [0.0, 0.0], 4.0)
    shorter.refresh(longer)
    assert shorter.accept == pytest.approx([0.25, (4 / 3) / (7 / 3)])


def test_new_drafts_displace_old_ones() -> None:
    """After as many drafts as the memory holds, 1/e of the older counts is left."""
    memory = VerdictMemory(1, 10.0)
    memory.learn([8.0], [8.0], 8.0)
    memory.learn([10.0], [0.0], 10.0)
    assert memory.judged == pytest.approx([8.0 / math.e + 10.0])
    memory.forget(0.5)
    assert memory.judged == pytest.approx([4.0 / math.e + 5.0])


def test_the_likelihood_counts_judged_positions_only() -> None:
    memory = VerdictMemory(3, 96.0)
    memory.accept = [0.8, 0.5, 0.1]
    found = memory.log_likelihood([4.0, 3.0, 0.0], [3.0, 3.0, 0.0])
    assert found == pytest.approx(3 * math.log(0.8) + math.log(0.2) + 3 * math.log(0.5))


def test_a_restart_takes_the_counts_of_the_other_memory() -> None:
    longer, shorter = VerdictMemory(1, 96.0), VerdictMemory(1, 12.0)
    longer.learn([50.0], [50.0], 50.0)
    shorter.learn([5.0], [1.0], 5.0)
    longer.restart_from(shorter)
    longer.refresh(None)
    assert longer.judged == [5.0]
    assert longer.accept == pytest.approx([(1.2 + 1) / 7])
    shorter.learn([1.0], [1.0], 1.0)
    assert longer.judged == [5.0]  # a copy
