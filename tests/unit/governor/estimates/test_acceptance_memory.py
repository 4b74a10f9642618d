"""How fast the acceptance estimate follows, and how steady it is where nothing changes.

The bounds hold for any estimator that is fit for the governor. A memory ten times as long, or none,
is outside of them.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.values import StepSample

DEPTH = 4


def sample(accepted: Sequence[int] = (), *, drafted: int = 1) -> StepSample:
    """A step that judged drafts of `drafted` tokens; none for no `accepted`."""
    count = len(accepted)
    return StepSample(
        num_requests=max(count, 4),
        requested_draft_length=drafted if count else 0,
        drafted=(drafted,) * count,
        accepted=tuple(accepted),
        verified_draft_tokens=drafted * count,
        draft_length=drafted if count else 0,
        prefill_tokens=0,
        context_tokens=400,
        duration_s=0.02,
        is_clean=True,
        judged=tuple(str(number) for number in range(count)),
    )


def drawn(chance: float, draw: random.Random, count: int = 4) -> list[int]:
    return [int(draw.random() < chance) for _ in range(count)]


def learned(chance: float, num_steps: int, *, seed: int = 0) -> AcceptanceModel:
    """A model that has seen drafts of one token for four requests."""
    model, draw = AcceptanceModel(DEPTH), random.Random(seed)
    for _ in range(num_steps):
        model.observe(sample(drawn(chance, draw)))
    return model


@pytest.mark.parametrize(("before", "after"), [(0.9, 0.2), (0.2, 0.9), (0.8, 0.5)])
def test_a_shift_is_followed_within_a_hundred_steps(before: float, after: float) -> None:
    """400 verdicts: nine tenths of the way, whatever came before it."""
    model, draw = learned(before, 2000), random.Random(1)
    seen = []
    for _ in range(100):
        model.observe(sample(drawn(after, draw)))
        seen.append(model.survival[0])
    late = statistics.fmean(seen[60:])
    assert abs(late - after) < 0.12
    assert abs(seen[0] - before) < 0.15  # one step of four verdicts does not decide


def test_where_nothing_changes_the_estimate_is_steady() -> None:
    """Over 2,000 steps: right on average, and within 0.16 in 19 of 20 steps."""
    model, draw = learned(0.7, 200), random.Random(2)
    seen = []
    for _ in range(2000):
        model.observe(sample(drawn(0.7, draw)))
        seen.append(model.survival[0])
    assert statistics.fmean(seen) == pytest.approx(0.7, abs=0.03)
    far = sum(abs(found - 0.7) > 0.16 for found in seen)
    assert far < 100
    assert statistics.stdev(seen) > 0.005  # not frozen


def test_a_rest_makes_the_next_verdicts_weigh_more() -> None:
    """After 2,000 steps without drafts, eight rejections count more than right after drafting."""
    moved = []
    for num_idle in (0, 2000):
        model = learned(0.9, 500)
        for _ in range(num_idle):
            model.observe(sample())
        before = model.survival[0]
        for _ in range(2):
            model.observe(sample([0, 0, 0, 0]))
        moved.append(before - model.survival[0])
    assert moved[1] > 1.3 * moved[0]


def test_a_rest_alone_changes_no_estimate() -> None:
    model = learned(0.9, 500)
    before = model.survival[0]
    for _ in range(2000):
        model.observe(sample())
    assert model.survival[0] == pytest.approx(before, abs=0.08)


def test_a_change_at_the_first_position_is_seen_at_those_not_reached() -> None:
    """After rejections at the first position, survival at the fourth is lower still."""
    model, draw = AcceptanceModel(DEPTH), random.Random(3)
    for _ in range(300):
        model.observe(sample([DEPTH * int(draw.random() < 0.9) for _ in range(4)], drafted=DEPTH))
    before = model.survival[3]
    for _ in range(60):
        model.observe(sample(drawn(0.2, draw)))
    assert model.survival[3] < 0.5 * before
    assert model.survival[3] <= model.survival[0]
