"""How unlike requests are, from steps in which it is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from paceline.runtime.governor.acceptance.dispersion import Dispersion
from paceline.runtime.governor.values import StepSample


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


def test_the_first_estimate() -> None:
    """Four requests, two of them always better: all of it lasts, less 1 / sqrt(4 - 1)."""
    learned = Dispersion()
    for _ in range(1 + 8):
        learned.observe(sample({"a": 4, "b": 0, "c": 4, "d": 0}))
    assert learned.share == pytest.approx(1.0 - 1.0 / math.sqrt(3.0))


def test_a_part_of_the_variance_lasts() -> None:
    """Deviations (2, -2, 1, -1) and then (2, -2, -1, 1): (8 - 2) / 10 of it, less 1 / sqrt(3)."""
    learned = Dispersion()
    for step in range(1 + 8):
        swapped = step == 8
        learned.observe(
            sample({"a": 4, "b": 0, "c": 1 if swapped else 3, "d": 3 if swapped else 1})
        )
    assert learned.share == pytest.approx(0.6 - 1.0 / math.sqrt(3.0))


def test_steps_are_compared_eight_apart() -> None:
    """Requests that change places every four steps are as before after eight, and never after
    twelve."""
    learned = {period: Dispersion() for period in (4, 8)}
    for step in range(1600):
        for period, one in learned.items():
            turn = step // period % 2
            one.observe(sample({f"{i}": 4 * ((i + turn) % 2) for i in range(8)}))
    assert learned[4].share > 0.9
    assert learned[8].share == 0.0


def test_a_change_of_all_requests_is_no_difference_between_them() -> None:
    """Everybody has 4 accepted in one comparison and 0 in the next."""
    learned = Dispersion()
    for step in range(400):
        learned.observe(sample(dict.fromkeys("abcd", 4 * (step // 8 % 2))))
    assert learned.share == 0.0


def test_sixty_four_requests_are_looked_at() -> None:
    """The 64th counts, the 65th does not."""
    for num_alike, found in ((63, True), (64, False)):
        learned = Dispersion()
        for _ in range(400):
            learned.observe(sample({f"{i}": 4 if i >= num_alike else 0 for i in range(80)}))
        assert (learned.share > 0.5) is found


def test_requests_that_have_ended_are_left_out() -> None:
    """Two of four remain from one comparison to the next; the other two are new."""
    learned = Dispersion()
    for step in range(1600):
        turn = step // 8
        learned.observe(sample({"a": 4, "b": 0, f"{turn}": 4 * (turn % 2), f"x{turn}": 2}))
    assert learned.share > 0.8


def test_old_differences_are_forgotten() -> None:
    """Eight requests that differed for long become alike, but for luck: 7 pairs a comparison.

    2,048 pairs are 256 comparisons, 2,048 steps. After half of them most of it is still believed,
    after three times as many little is.
    """
    draw = random.Random(2)
    learned = Dispersion()
    for _ in range(8000):
        learned.observe(sample({f"{i}": 4 * (i % 2) for i in range(8)}))
    shares = []
    for _ in range(6144):
        learned.observe(sample({f"{i}": draw.choice((0, 4)) for i in range(8)}))
        shares.append(learned.share)
    assert 0.45 < shares[1023] < 0.7
    assert shares[6143] < 0.12


def test_a_rest_at_length_0_breaks_the_comparison() -> None:
    """The step before the rest is not compared with the one after it."""
    learned = Dispersion()
    different = sample({"a": 4, "b": 0, "c": 4, "d": 0})
    for _ in range(20):
        for _ in range(8):
            learned.observe(different)
        learned.observe(sample({}))
    assert learned.share == 0.0


def test_what_fades_at_length_0_is_relearned_slowly() -> None:
    """After a rest of 1,024 steps, 1/e is left; one more comparison adds little."""
    learned = Dispersion()
    different = sample({f"{i}": 4 * (i % 2) for i in range(8)})
    for _ in range(4000):
        learned.observe(different)
    before = learned.share
    for _ in range(1024):
        learned.observe(sample({}))
    for _ in range(1 + 8):
        learned.observe(different)
    assert 0.33 * before < learned.share < 0.45 * before


def test_small_differences_are_enough() -> None:
    """One of three requests has one token more, always: all of it lasts, less 1 / sqrt(3 - 1)."""
    learned = Dispersion()
    for _ in range(1 + 8):
        learned.observe(sample({"a": 1, "b": 0, "c": 0}))
    assert learned.share == pytest.approx(1.0 - 1.0 / math.sqrt(2.0))


def test_what_was_known_stays_while_one_request_drafts() -> None:
    learned = Dispersion()
    for _ in range(400):
        learned.observe(sample({f"{i}": 4 * (i % 2) for i in range(8)}))
    before = learned.share
    for _ in range(400):
        learned.observe(sample({"0": 2}))
    assert learned.share == before


def test_requests_without_ids_say_nothing() -> None:
    learned = Dispersion()
    anonymous = replace(sample({"a": 4, "b": 0, "c": 4, "d": 0}), judged=())
    for _ in range(100):
        learned.observe(anonymous)
    assert learned.share == 0.0
