"""How unlike requests are, from steps in which it is known."""

from __future__ import annotations

import random

from paceline.governor.estimates.dispersion import Dispersion
from paceline.governor.values import StepSample


def sample(accepted: dict[str, int]) -> StepSample:
    count = len(accepted)
    return StepSample(
        num_requests=max(count, 1),
        requested_draft_length=4 if count else 0,
        drafted=(4,) * count,
        accepted=tuple(accepted.values()),
        verified_draft_tokens=4 * count,
        draft_length=4,
        prefill_tokens=0,
        context_tokens=0,
        duration_s=0.01,
        is_clean=True,
        judged=tuple(accepted),
    )


def test_requests_that_always_differ() -> None:
    """Of eight, half have all accepted and half none, always: all of it lasts."""
    learned = Dispersion()
    for _ in range(2000):
        learned.observe(sample({f"{i}": 4 * (i % 2) for i in range(8)}))
    assert learned.share > 0.95


def test_luck_does_not_last() -> None:
    """Drawn anew in every step; also when all of them become easy at once."""
    draw = random.Random(0)
    learned = Dispersion()
    for step in range(4000):
        ease = 3 if step < 2000 else 0
        learned.observe(sample({f"{i}": draw.randint(0, 1) + ease for i in range(8)}))
        assert learned.share < 0.1


def test_half_luck_and_half_lasting() -> None:
    """Variance 1/4 between two kinds and 1/4 of luck: a half, less the standard error."""
    draw = random.Random(1)
    learned = Dispersion()
    for _ in range(8000):
        learned.observe(sample({f"{i}": i % 2 + draw.randint(0, 1) for i in range(16)}))
    assert 0.42 < learned.share < 0.53


def test_what_was_known_fades_while_nothing_is_drafted() -> None:
    """After 1024 steps at length 0, 1/e of it is left."""
    learned = Dispersion()
    for _ in range(2000):
        learned.observe(sample({f"{i}": 4 * (i % 2) for i in range(8)}))
    before = learned.share
    for _ in range(1024):
        learned.observe(sample({}))
    assert 0.35 < learned.share / before < 0.39


def test_one_request_says_nothing() -> None:
    """Neither one request nor requests without ids change the share."""
    learned = Dispersion()
    for step in range(200):
        learned.observe(sample({"only": step % 5}))
    assert learned.share == 0.0
