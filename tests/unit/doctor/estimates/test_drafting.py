"""The error of the accepted tokens per draft, where neighbouring seconds have similar texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from paceline.operations.doctor.estimates.drafting import Drafting, drafting_of
from paceline.operations.doctor.estimates.step_points import StepPoint, pooled
from paceline.operations.doctor.readings.engines import EngineReading
from unit.doctor.estimates.test_correlated_fit import errors

_DRAFTS_PER_S = 400


def drafting(accepted_per_draft: Sequence[float]) -> Drafting:
    """Of an engine with one figure per second, and drafts of eight tokens."""
    totals = np.concatenate([[0.0], np.cumsum(accepted_per_draft)]) * _DRAFTS_PER_S
    return drafting_of(
        [
            EngineReading(
                at_s=float(second),
                generation_tokens_total=_DRAFTS_PER_S * second + accepted,
                decode_s_total=4.0 * second,
                decode_steps_total=float(_DRAFTS_PER_S * second),
                drafts_total=float(_DRAFTS_PER_S * second),
                drafted_tokens_total=8.0 * _DRAFTS_PER_S * second,
                accepted_tokens_total=accepted,
            )
            for second, accepted in enumerate(totals)
        ]
    )


def test_texts_that_differ_for_seconds_widen_the_interval_of_what_is_accepted() -> None:
    """The mean is 2 in both, and drafts of one second are independent at most."""
    steady, changing = drafting([2.0] * 16), drafting([1.0] * 8 + [3.0] * 8)
    assert changing.accepted_per_draft == steady.accepted_per_draft == pytest.approx(2.0)
    # Two standard errors of 6400 drafts with a variance of 2 (8 - 2) at most
    assert steady.accepted_error == pytest.approx(2 * (12 / 6400) ** 0.5)
    assert changing.accepted_error > 1.0


def test_the_interval_of_what_is_accepted_holds_the_truth() -> None:
    """300 draws; the standard error is 1.3 percentage points."""
    held = 0
    for error in errors(300, 15, 0.6, seed=4):
        found = drafting(2 + 0.2 * error)
        held += abs(found.accepted_per_draft - 2) <= found.accepted_error
    assert 0.91 <= held / 300 <= 0.999


def test_an_hour_of_readings_is_estimated_within_seconds() -> None:
    found = drafting(2 + 0.2 * errors(1, 3600, 0.6, seed=5)[0])
    assert 0.01 < found.accepted_error < 0.1


def test_neighbouring_points_are_joined_with_their_weights() -> None:
    points = [
        StepPoint(1.0, 0.01, 30.0, 2.0),
        StepPoint(5.0, 0.03, 10.0, 6.0),
        StepPoint(4.0, 0.02, 5.0, None),
    ]
    assert pooled(points, 3) == points
    joined, last = pooled(points, 2)
    assert (joined.num_requests, joined.weight) == (2.0, 40.0)
    assert joined.step_s == pytest.approx(0.015)
    assert joined.prompt_tokens_per_step == pytest.approx(3.0)
    assert last == points[2]
    (one,) = pooled(points, 1)
    assert one.prompt_tokens_per_step is None
