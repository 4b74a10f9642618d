"""The acceptance model on verdicts with computed expectations."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.estimates.change_detector import ChangeDetector
from paceline.governor.values import StepSample


def verdicts(asked: int, *pairs: tuple[int, int]) -> StepSample:
    drafted = tuple(d for d, _ in pairs)
    return StepSample(
        num_requests=len(pairs),
        requested_draft_length=asked,
        drafted=drafted,
        accepted=tuple(a for _, a in pairs),
        verified_draft_tokens=sum(drafted),
        draft_length=asked,
        prefill_tokens=0,
        context_tokens=0,
        duration_s=None,
        is_clean=False,
    )


def test_one_step_of_counts() -> None:
    """Four requests, 2 drafted each, accepted 0, 1, 1, 2.

    Position 1: judged 4, accepted 3, prior 0.6 with strength 2: (1.2 + 3) / 6 = 0.7.
    Position 2: judged 3 (not the one rejected before), accepted 1, prior 0.7: 2.4 / 5 = 0.48.
    All offered: (1.96 + 4) / 6 at both positions.
    """
    model = AcceptanceModel(2)
    model.observe(verdicts(2, (2, 0), (2, 1), (2, 1), (2, 2)))
    offer = 5.96 / 6
    assert model.survival == pytest.approx([0.7 * offer, 0.7 * 0.48 * offer**2])
    assert model.offered == pytest.approx([offer, offer**2])


def test_positions_not_asked_for_learn_nothing_but_follow() -> None:
    """Only length 1 asked: position 2 keeps no count and takes over position 1's estimate."""
    model = AcceptanceModel(2)
    model.observe(verdicts(1, (1, 1), (1, 1)))
    first = model.survival[0] / model.offered[0]
    second = model.survival[1] / model.survival[0] / (model.offered[1] / model.offered[0])
    assert first == pytest.approx((1.2 + 2) / 4)
    assert second == pytest.approx(first)


def test_a_request_that_was_asked_for_less_is_no_missing_offer() -> None:
    """2 requested of the first three requests, 1 of the last two; the last one got nothing.

    Position 1: 4 of 5 offered. Position 2: only the first three were asked for it, 2 of them offer
    it.
    """
    model = AcceptanceModel(2)
    sample = verdicts(2, (2, 1), (2, 2), (1, 1), (1, 1), (0, 0))
    model.observe(replace(sample, requested=(2, 2, 2, 1, 1)))
    first = (1.96 + 4) / 7
    assert model.offered == pytest.approx([first, first * (1.96 + 2) / 5])
    accept = (1.2 + 4) / 6
    second = (2 * accept + 1) / 4
    assert model.survival == pytest.approx([first * accept, model.offered[1] * accept * second])


def test_a_request_offered_nothing_counts_against_offers_only() -> None:
    """One of two requests got no draft: offers halve, acceptance is that of the drafted one."""
    model = AcceptanceModel(1)
    model.observe(verdicts(1, (0, 0), (1, 1)))
    assert model.offered[0] == pytest.approx((1.96 + 1) / 4)
    assert model.survival[0] / model.offered[0] == pytest.approx((1.2 + 1) / 3)


@pytest.mark.parametrize("seed", range(3))
def test_survival_always_falls(seed: int) -> None:
    """Whatever is observed, a longer prefix is never more likely to be accepted."""
    draw = random.Random(seed)
    model = AcceptanceModel(6)
    for _ in range(200):
        asked = draw.randint(0, 6)
        pairs = [(d := draw.randint(0, asked), draw.randint(0, d)) for _ in range(3)]
        model.observe(verdicts(asked, *pairs) if asked else verdicts(0))
        assert all(a >= b for a, b in zip(model.survival, model.survival[1:], strict=False))
        assert model.survival[-1] > 0.0
        assert model.survival[0] <= 1.0


def test_the_truth_is_found() -> None:
    """Positions accepted with 0.8 and 0.5: survival 0.8 and 0.4 within the noise of 96 verdicts."""
    draw = random.Random(0)
    model = AcceptanceModel(2)
    for _ in range(200):
        pairs = []
        for _ in range(8):
            first = draw.random() < 0.8
            pairs.append((2, int(first) + int(first and draw.random() < 0.5)))
        model.observe(verdicts(2, *pairs))
    assert model.survival == pytest.approx([0.8, 0.4], abs=0.1)


def test_a_shift_is_relearned_in_a_few_steps() -> None:
    """From 0.9 to 0.1 at 8 requests: ten steps later the estimate has followed."""
    draw = random.Random(1)
    model = AcceptanceModel(1)
    for chance in (0.9,) * 100 + (0.1,) * 10:
        model.observe(verdicts(1, *[(1, int(draw.random() < chance)) for _ in range(8)]))
    assert model.num_changes >= 1
    assert model.survival[0] < 0.35


def test_steady_noise_is_seldom_taken_for_a_change() -> None:
    """2000 steps of one request at 0.7: a handful of false alarms at most."""
    draw = random.Random(2)
    model = AcceptanceModel(3)
    for _ in range(2000):
        accepted = 0
        while accepted < 3 and draw.random() < 0.7:
            accepted += 1
        model.observe(verdicts(3, (3, accepted)))
    assert model.num_changes <= 4


def test_steps_without_drafts_keep_a_floor_of_evidence() -> None:
    """After a long pause a low estimate has not returned to the prior of 0.6."""
    model = AcceptanceModel(1)
    for _ in range(50):
        model.observe(verdicts(1, (1, 0), (1, 0)))
    for _ in range(5000):
        model.observe(verdicts(0))
    assert model.survival[0] < 0.15


def test_optimism_shrinks_with_evidence() -> None:
    """One standard error up: wide after one verdict, narrow after many."""
    few, many = AcceptanceModel(1), AcceptanceModel(1)
    few.observe(verdicts(1, (1, 1), (1, 0)))
    for _ in range(40):
        many.observe(verdicts(1, (1, 1), (1, 0)))

    def margin(model: AcceptanceModel) -> float:
        return model.optimistic_survival(1) / model.survival[0] - 1

    assert margin(few) > 2 * margin(many) > 0


def test_no_alarm_below_the_slack() -> None:
    """Surprises of half a standard deviation are what the slack is for."""
    detector = ChangeDetector()
    assert not any(detector.observe(0.5) for _ in range(1000))


def test_alarm_on_a_fall_too() -> None:
    """Both directions are watched: 8 / (3 - 0.5) is passed with the fourth."""
    detector = ChangeDetector()
    assert [detector.observe(-math.inf) for _ in range(4)] == [False, False, False, True]


def test_first_token_verdicts_count_as_drafts_of_one_token() -> None:
    """Five of eight first tokens came: (1.2 + 5) / 10 at position 1, and position 2 follows."""
    model = AcceptanceModel(2)
    model.observe(replace(verdicts(0), first_token_verdicts=(1, 1, 1, 1, 1, 0, 0, 0)))
    offer = (1.96 + 8) / 10
    assert model.survival[0] == pytest.approx(0.62 * offer)
    assert model.survival[1] == pytest.approx(0.62 * 0.62 * offer * model.offered[1] / offer)


def test_first_token_verdicts_are_0_or_1() -> None:
    with pytest.raises(ValueError, match="must be 0 or 1"):
        replace(verdicts(0), first_token_verdicts=(0, 2))
