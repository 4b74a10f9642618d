"""The acceptance model on verdicts with computed expectations."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace

import pytest

from paceline.governor.estimates.acceptance import AcceptanceModel
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
    """Four requests, 2 drafted each, accepted 0, 1, 1, 2: all memories predicted equally well.

    Position 1: judged 4, accepted 3; the longest memory has (1.2 + 3) / 6 = 0.7, the next ones,
    shrunk towards it with strength 4, 0.725 and 0.7375.
    All offered: (1.96 + 4) / 6 at both positions.
    """
    model = AcceptanceModel(2)
    model.observe(verdicts(2, (2, 0), (2, 1), (2, 1), (2, 2)))
    offer = 5.96 / 6
    assert model.survival[0] == pytest.approx((0.7 + 0.725 + 0.7375) / 3 * offer)
    assert 0.3 < model.survival[1] / (model.survival[0] * offer) < 0.48
    assert model.offered == pytest.approx([offer, offer**2])


def test_positions_not_asked_for_learn_nothing_but_follow() -> None:
    """Only length 1 requested: position 2 takes over position 1's estimate."""
    model = AcceptanceModel(2)
    model.observe(verdicts(1, (1, 1), (1, 1)))
    first = model.survival[0] / model.offered[0]
    second = model.survival[1] / model.survival[0] / (model.offered[1] / model.offered[0])
    assert first > 0.75
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
    assert model.survival[1] < model.survival[0] < first


def test_a_change_at_the_first_position_shifts_deeper_ones() -> None:
    """Deep drafts were nearly always accepted, then length 1 nearly never: nobody expects 8."""
    model = AcceptanceModel(8)
    for _ in range(50):
        model.observe(verdicts(8, (8, 8), (8, 7)))
    for _ in range(30):
        model.observe(verdicts(1, (1, 0), (1, 0)))
    assert model.survival[0] < 0.05
    assert model.survival[1] / model.survival[0] < 0.65


def test_a_request_offered_nothing_counts_against_offers_only() -> None:
    """One of two requests got no draft: offers halve, acceptance is that of the drafted one."""
    model = AcceptanceModel(1)
    model.observe(verdicts(1, (0, 0), (1, 1)))
    assert model.offered[0] == pytest.approx((1.96 + 1) / 4)
    accept = (2.2 / 3 + (4 * 2.2 / 3 + 1) / 5 + (4 * (4 * 2.2 / 3 + 1) / 5 + 1) / 5) / 3
    assert model.survival[0] / model.offered[0] == pytest.approx(accept)


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


@pytest.mark.parametrize(("num_requests", "num_steps"), [(1, 24), (8, 6), (64, 4)])
def test_a_shift_is_relearned_in_a_few_steps(num_requests: int, num_steps: int) -> None:
    """From 0.9 to 0.1: the estimate has followed after a few steps, fewer with many requests."""
    draw = random.Random(1)
    model = AcceptanceModel(1)
    for chance in (0.9,) * 200 + (0.1,) * num_steps:
        model.observe(verdicts(1, *[(1, int(draw.random() < chance)) for _ in range(num_requests)]))
    assert model.num_changes >= 1
    assert model.survival[0] < 0.35


@pytest.mark.parametrize("num_requests", [1, 8, 64])
def test_steady_noise_is_not_taken_for_a_change(num_requests: int) -> None:
    """2000 steps at 0.7 per position: at most a false alarm in 1000 steps."""
    draw = random.Random(2)
    model = AcceptanceModel(3)
    for _ in range(2000):
        model.observe(verdicts(3, *[(3, _run(draw, 0.7, 3)) for _ in range(num_requests)]))
    assert model.num_changes <= 2


def test_runs_of_verdicts_that_come_together_are_not_taken_for_a_change() -> None:
    """Sixteen requests whose texts grow hard and easy together, as batches of code do.

    The chance per position wanders between 0.4 and 0.9, slowly enough to follow. A detector of
    changes that takes verdicts for independent rang 53 times in these 900 steps.
    """
    draw = random.Random(3)
    model = AcceptanceModel(8)
    logit, misses = 0.85, []
    for _ in range(900):
        logit = 0.85 + 0.8 * (logit - 0.85) + draw.gauss(0.0, 0.4)
        chance = 1.0 / (1.0 + math.exp(-logit))
        model.observe(verdicts(8, *[(8, _run(draw, chance, 8)) for _ in range(16)]))
        misses.append(model.survival[0] - chance)
    assert model.num_changes <= 15
    assert statistics.stdev(misses) < 0.1


def test_a_change_keeps_what_was_seen_since() -> None:
    """In the step that detects a fall, and in those after it, the estimate stays near the truth."""
    draw = random.Random(4)
    model = AcceptanceModel(1)
    for _ in range(100):
        model.observe(verdicts(1, *[(1, int(draw.random() < 0.9)) for _ in range(16)]))
    estimates = []
    for _ in range(40):
        model.observe(verdicts(1, *[(1, int(draw.random() < 0.3)) for _ in range(16)]))
        estimates.append(model.survival[0])
    assert model.num_changes >= 1
    assert all(estimate == pytest.approx(0.3, abs=0.2) for estimate in estimates[8:])


@pytest.mark.parametrize("pair", [(0, 2), (2, 4), (4, 1)])
def test_the_relative_error_is_that_of_the_tokens(pair: tuple[int, int]) -> None:
    """The delta method against the spread of 400 models that saw the same traffic."""
    length, other = pair
    logs, errors = [], []
    for seed in range(400):
        draw = random.Random(seed)
        model = AcceptanceModel(4)
        for _ in range(24):
            model.observe(verdicts(4, *[(4, _run(draw, 0.7, 4)) for _ in range(2)]))
        tokens = [1.0 + sum(model.survival[:end]) for end in pair]
        logs.append(math.log(tokens[0] / tokens[1]))
        errors.append(model.relative_error(length, other))
    assert statistics.stdev(logs) == pytest.approx(statistics.fmean(errors), rel=0.35)


def _run(draw: random.Random, chance: float, most: int) -> int:
    accepted = 0
    while accepted < most and draw.random() < chance:
        accepted += 1
    return accepted


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
