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


def test_one_odd_draft_leaves_the_weights_of_the_others() -> None:
    """Seven of eight drafts have 4 tokens; one request was near its end and got 2."""
    weights = RequestWeights()
    step = [(str(number), 4, 4 * (number % 2)) for number in range(7)]
    weights.weigh(judged(*step, ("odd", 2, 2)))
    found = weights.weigh(judged(*step, ("odd", 2, 2)))
    assert found is not None
    assert found[4, 0] / 4 > found[4, 4] / 3
    assert found[2, 2] > 0.0


def test_requests_weighed_last_are_remembered() -> None:
    """5000 other requests come and go; a and b are in every step and keep their rates."""
    weights = RequestWeights()
    for number in range(2500):
        others = ((f"x{number}", 4, 2), (f"y{number}", 4, 2))
        found = weights.weigh(judged(("a", 4, 4), ("b", 4, 0), *others))
        if number > 100:
            assert found is not None
            assert found[4, 0] / found[4, 4] > 3
    assert len(weights._known) <= 4100


def test_the_pace_of_a_request_is_that_of_its_last_steps() -> None:
    """After 100 steps at 5 tokens and 33 at 1, a weighs between one that was always at 5 and one
    that was always at 1; a memory of 33 steps has forgotten two thirds."""
    paces = RequestWeights()
    for step in range(133):
        paces.weigh(judged(("a", 8, 4 if step < 100 else 0), ("fast", 8, 4), ("slow", 8, 0)))
    last = dict(paces.weigh(judged(("a", 8, 5), ("fast", 8, 4), ("slow", 8, 0))) or {})
    position = (last[8, 5] - last[8, 4]) / (last[8, 0] - last[8, 4])
    assert 0.2 < position < 0.4
    rate = last[8, 0] / last[8, 5]  # rates are inverse to weights
    assert 2.0 < rate < 2.6


def test_a_new_request_starts_at_the_recent_mean() -> None:
    """The batch's mean falls from 5 tokens to 1: after 20 steps 36 % of the fall are left.

    So a newcomer weighs 1 / 2.4 where the requests of long ago, now at 1 token, weigh nearly 1.
    """
    paces = RequestWeights()
    for _ in range(200):
        paces.weigh(judged(("a", 8, 4), ("b", 8, 4)))
    for step in range(20):
        paces.weigh(judged((f"{step}", 8, 0), (f"x{step}", 8, 0)))
    new = dict(paces.weigh(judged(("new", 8, 1), ("a", 8, 4))) or {})
    # a: known as 5 tokens a step for all of its memory; new: 1 + 4 * 0.95 ** 20.
    assert new[8, 1] / new[8, 4] == pytest.approx(5.0 / (1.0 + 4.0 * 0.95**21), rel=0.12)


def test_weights_have_the_mean_of_one_and_equal_verdicts_are_added() -> None:
    paces = RequestWeights()
    for _ in range(10):
        paces.weigh(judged(("a", 4, 4), ("b", 4, 0), ("c", 4, 0)))
    weights = dict(paces.weigh(judged(("a", 4, 2), ("b", 4, 2), ("c", 4, 1))) or {})
    assert sum(weights.values()) == pytest.approx(3.0)
    assert weights[4, 2] == pytest.approx(3.0 - weights[4, 1])


@pytest.mark.parametrize("num_requests", [32, 33])
def test_up_to_thirty_two_requests_are_all_weighed(num_requests: int) -> None:
    paces = RequestWeights()
    step = judged(*((str(number), 1, 1) for number in range(num_requests)))
    weights = dict(paces.weigh(step) or {})
    assert weights[1, 1] == pytest.approx(32)


def test_turns_begin_with_the_first_request_again() -> None:
    """Of 64 requests, in two turns, the first one alone has a token accepted."""
    paces = RequestWeights()
    step = judged(*((str(number), 1, int(number == 0)) for number in range(64)))
    has_first = [(1, 1) in (paces.weigh(step) or {}) for _ in range(6)]
    assert has_first == [True, False] * 3


@pytest.mark.parametrize(("num_others", "is_known"), [(4094, True), (4096, False)])
def test_4096_requests_are_remembered(num_others: int, is_known: bool) -> None:
    """Two requests with different rates, and then others: the two are the oldest known."""
    weights = RequestWeights()
    weights.weigh(judged(("a", 4, 4), ("b", 4, 0)))
    for number in range(0, num_others, 2):
        weights.weigh(judged((f"{number}", 4, 2), (f"{number + 1}", 4, 2)))
    found = weights.weigh(judged(("a", 4, 3), ("b", 4, 1)))
    assert found is not None
    assert (found[4, 3] < found[4, 1]) is is_known


@pytest.mark.parametrize(("oldest", "is_known"), [(2044, False), (2050, True)])
def test_the_older_half_is_forgotten(oldest: int, is_known: bool) -> None:
    """Beyond 4,096 the 2,048 that were weighed longest ago are forgotten."""
    weights = RequestWeights()
    for number in range(0, 4098, 2):
        weights.weigh(judged((f"{number}", 4, 4), (f"{number + 1}", 4, 0)))
    found = weights.weigh(judged((f"{oldest}", 4, 3), (f"{oldest + 1}", 4, 1)))
    assert found is not None
    assert (found[4, 3] < found[4, 1]) is is_known
