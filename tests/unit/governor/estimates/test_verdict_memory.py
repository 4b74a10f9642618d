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


def test_one_verdict_never_decides_alone() -> None:
    """What the memory holds for impossible has a chance of 1 %."""
    memory = VerdictMemory(2, 96.0)
    memory.accept = [1.0, 0.0]
    assert memory.log_likelihood([1.0, 0.0], [0.0, 0.0]) == pytest.approx(math.log(0.01))
    memory.accept = [0.0, 1.0]
    assert memory.log_likelihood([1.0, 1.0], [1.0, 1.0]) == pytest.approx(math.log(0.01))


@pytest.mark.parametrize(
    ("longer_accept", "accepted", "second"), [(0.01, 4.0, 20 / 21), (0.99, 0.0, 1 / 21)]
)
def test_a_departure_multiplies_odds_by_at_most_twenty(
    longer_accept: float, accepted: float, second: float
) -> None:
    """Odds of 1 at the second position become 20 or 1/20, not the 101 or 1/101 of the first."""
    longer, shorter = VerdictMemory(2, 96.0), VerdictMemory(2, 12.0)
    longer.accept = [longer_accept, 0.5]
    shorter.learn([4.0, 0.0], [accepted, 0.0], 4.0)
    shorter.refresh(longer)
    assert shorter.accept[1] == pytest.approx(second)


def test_certainties_have_finite_odds() -> None:
    longer, shorter = VerdictMemory(2, 96.0), VerdictMemory(2, 12.0)
    longer.accept = [1.0, 0.5]
    shorter.refresh(longer)
    assert shorter.accept[0] == 1.0
    assert 0.0 < shorter.accept[1] < 1.0


def test_a_memory_accepts_nothing_before_it_was_computed() -> None:
    assert VerdictMemory(2, 96.0).accept == [0.0, 0.0]


@pytest.mark.parametrize(("num_judged", "num_accepted"), [(1, 2), (2, 1), (3, 2)])
def test_counts_of_another_number_of_positions_are_refused(
    num_judged: int, num_accepted: int
) -> None:
    memory = VerdictMemory(2, 96.0)
    counts = [1.0] * num_judged, [1.0] * num_accepted
    with pytest.raises(ValueError, match="zip"):
        memory.learn(*counts, 1.0)
    with pytest.raises(ValueError, match="zip"):
        VerdictMemory(2, 96.0).log_likelihood(*counts)


def test_forgetting_keeps_the_share_accepted() -> None:
    """Half of 8 of 8 is 4 of 4: (2 * 0.6 + 4) / (2 + 4)."""
    memory = VerdictMemory(1, 96.0)
    memory.learn([8.0], [8.0], 8.0)
    memory.forget(0.5)
    memory.refresh(None)
    assert memory.accept == pytest.approx([5.2 / 6.0])
