"""Weights of requests against computed values."""

from __future__ import annotations

import pytest

from paceline.governor.estimates.request_weights import RequestWeights
from paceline.governor.values import StepSample


def judged(*verdicts: tuple[str, int, int]) -> StepSample:
    """A step that judged these: name, drafted, accepted."""
    drafted = tuple(d for _, d, _ in verdicts)
    return StepSample(
        num_requests=len(verdicts),
        requested_draft_length=max(drafted, default=0),
        drafted=drafted,
        accepted=tuple(a for _, _, a in verdicts),
        verified_draft_tokens=sum(drafted),
        draft_length=0,
        prefill_tokens=0,
        context_tokens=0,
        duration_s=None,
        is_clean=False,
        judged=tuple(name for name, _, _ in verdicts),
    )


def test_requests_nothing_is_known_of_count_alike() -> None:
    assert RequestWeights().weigh(judged(("a", 4, 4), ("b", 4, 0))) == pytest.approx(
        {(4, 4): 1, (4, 0): 1}
    )


def test_a_fast_request_counts_less() -> None:
    """Of 5 tokens and of 1 in the first step, where the mean is 3.

    Rates: (4 * 3 + 5) / 5 and (4 * 3 + 1) / 5, which is 17 to 13; so weights of 13 and 17 in 30.
    """
    paces = RequestWeights()
    paces.weigh(judged(("a", 4, 4), ("b", 4, 0)))
    weights = paces.weigh(judged(("a", 4, 3), ("b", 4, 1)))
    assert weights == pytest.approx({(4, 3): 2 * 13 / 30, (4, 1): 2 * 17 / 30})


def test_a_new_request_begins_with_the_pace_of_all() -> None:
    """After long at 5 and 1 tokens a step, a newcomer lies between the two."""
    paces = RequestWeights()
    for _ in range(100):
        paces.weigh(judged(("a", 4, 4), ("b", 4, 0)))
    weights = paces.weigh(judged(("a", 4, 4), ("b", 4, 0), ("c", 4, 2)))
    assert weights is not None
    assert weights[4, 4] < weights[4, 2] < weights[4, 0]
    assert weights[4, 0] / weights[4, 4] == pytest.approx(5, rel=0.3)


def test_many_requests_take_turns() -> None:
    """Of 80 requests 32, 32 and 16 are weighed, then the first ones again."""
    paces = RequestWeights()
    step = judged(*((str(number), 1, number % 2) for number in range(80)))
    totals = [sum((paces.weigh(step) or {}).values()) for _ in range(4)]
    assert totals == pytest.approx([32, 32, 16, 32])


@pytest.mark.parametrize(
    "verdicts",
    [(("a", 4, 4),), (("a", 4, 4), ("b", 0, 0))],
    ids=["one request", "different lengths"],
)
def test_nothing_to_weigh(verdicts: tuple[tuple[str, int, int], ...]) -> None:
    assert RequestWeights().weigh(judged(*verdicts)) is None
