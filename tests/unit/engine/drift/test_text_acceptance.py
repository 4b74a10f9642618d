"""The acceptance of a text is the same at every draft length."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums, RequestVerdicts
from paceline.testing.policy_simulator.traffic.passages import PassageTraffic, draft_text, draw_text
from unit.engine.drift.simulated import simulate

TRAFFIC = PassageTraffic(0.6, passage_tokens=30.0, output_tokens=300)


def verdicts(*steps: tuple[int, int]) -> AcceptanceSums:
    request = RequestVerdicts()
    for requested, accepted in steps:
        request.add(requested, accepted)
    return request.sums()


def test_a_verdict_counts_by_the_tokens_of_the_step_before() -> None:
    """Weights 4, 1 and 2: the first step has none before it; the second and fourth accept."""
    sums = verdicts((3, 3), (3, 0), (3, 1), (3, 3))
    assert (sums.weight, sums.accepted_weight, sums.num_verdicts) == (7.0, 3.0, 3)


def test_positions_are_tried_as_far_as_they_were_requested() -> None:
    """A drafter that offered one of three tokens, which was accepted, failed at the second."""
    sums = verdicts((3, 1), (1, 1))
    assert (sums.tried, sums.accepted) == ([2, 1], [2, 0])
    assert sums.hazards() == (1.0, 0.0)


def test_steps_that_are_asked_for_nothing_say_nothing() -> None:
    """Also more accepted than requested, which no engine reports, is limited."""
    assert verdicts((0, 0), (2, 1), (0, 0), (2, 9)) == verdicts((2, 1), (2, 2))


def test_sums_of_requests_add_up() -> None:
    sums = verdicts((1, 1), (1, 0))
    sums.add(verdicts((3, 3), (3, 2)))
    assert (sums.weight, sums.accepted_weight, sums.num_verdicts) == (6.0, 4.0, 2)
    assert (sums.tried, sums.accepted) == ([4, 2, 2], [3, 2, 1])
    assert sums.acceptance == pytest.approx(4 / 6)


def first_positions(length: int) -> float:
    """The plain mean over steps, for comparison."""
    random = np.random.default_rng(3)
    accepted = [
        accepted > 0
        for mean in TRAFFIC.means(random, 200)
        for _, accepted in draft_text(draw_text(TRAFFIC, mean, random), lambda: length)
    ]
    return fmean(accepted)


def text_acceptance(length: int) -> float:
    random = np.random.default_rng(3)
    return fmean(sums.acceptance for sums in simulate(TRAFFIC, 200, random, lambda: length))


def test_the_acceptance_of_a_text_does_not_depend_on_the_draft_length() -> None:
    """The plain mean falls by more than the shift that must be found."""
    assert first_positions(1) - first_positions(8) > 0.1
    of_lengths = [text_acceptance(length) for length in (1, 2, 4, 8)]
    assert max(of_lengths) - min(of_lengths) < 0.03
    assert of_lengths[0] == pytest.approx(0.6, abs=0.03)
