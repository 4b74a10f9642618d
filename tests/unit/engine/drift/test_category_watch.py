"""What is flagged, and what is not: a shift, another draft length, another load."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from paceline.runtime.engine.drift.category_watch import (
    FIRST_REFERENCE,
    AcceptanceShift,
    CategoryWatch,
)
from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums
from paceline.testing.policy_simulator.traffic.passages import PassageTraffic
from unit.engine.drift.simulated import simulate

TRAFFIC = PassageTraffic(0.6, spread=0.08, output_tokens=100)


def constant(length: int) -> Callable[[], int]:
    return lambda: length


def add_until_shift(
    watch: CategoryWatch, requests: Iterable[AcceptanceSums]
) -> tuple[int, AcceptanceShift | None]:
    """(requests added, the shift)."""
    number = 0
    for number, request in enumerate(requests, start=1):
        shift = watch.add(request)
        if shift is not None:
            return number, shift
    return number, None


def learned(
    seed: int, length: int = 4, traffic: PassageTraffic = TRAFFIC
) -> tuple[CategoryWatch, np.random.Generator]:
    random = np.random.default_rng(seed)
    watch = CategoryWatch()
    requests = simulate(traffic, FIRST_REFERENCE, random, constant(length))
    assert add_until_shift(watch, requests) == (FIRST_REFERENCE, None)
    assert watch.reference is not None
    return watch, random


def test_a_shift_is_flagged_within_200_requests_with_both_levels() -> None:
    watch, random = learned(1)
    drifted = simulate(TRAFFIC.shifted(-0.1), 200, random, constant(4))
    number, shift = add_until_shift(watch, drifted)
    assert shift is not None
    assert number <= 200
    assert abs(shift.before.mean - 0.6) < 0.03
    assert abs(shift.now.mean - 0.5) < 0.05
    assert shift.now.hazards[0] < shift.before.hazards[0]
    assert abs(shift.now.num_requests - number) < 40


def test_another_draft_length_is_no_drift() -> None:
    """Which the governor changes with the load. The plain mean over steps would fall by 0.15."""
    passages = PassageTraffic(
        0.6, spread=0.05, contrast=0.35, passage_tokens=40.0, output_tokens=160
    )
    watch, random = learned(2, length=1, traffic=passages)
    for choose in (constant(8), lambda: int(random.integers(0, 9))):
        requests = simulate(passages, 300, random, choose)
        assert add_until_shift(watch, requests) == (300, None)


def test_a_shift_is_flagged_although_the_draft_length_changes_with_it() -> None:
    """As it does: the governor shortens drafts that are accepted less."""
    watch, random = learned(3, length=8)
    number, shift = add_until_shift(
        watch, simulate(TRAFFIC.shifted(-0.1), 200, random, constant(1))
    )
    assert shift is not None, number


def test_a_change_of_load_is_no_drift() -> None:
    """Longer answers, in sessions instead of single requests, and drafting off half of the time."""
    watch, random = learned(4)
    longer = PassageTraffic(0.6, output_tokens=150)
    half_off = simulate(longer, 300, random, lambda: int(random.choice((0, 3))))
    assert add_until_shift(watch, half_off) == (300, None)


def test_after_a_flag_the_reference_is_learned_anew() -> None:
    watch, random = learned(5)
    drifted = TRAFFIC.shifted(-0.15)
    add_until_shift(watch, simulate(drifted, 200, random, constant(4)))
    assert (watch.num_shifts, watch.reference, watch.evidence) == (1, None, None)
    again = simulate(drifted, FIRST_REFERENCE + 400, random, constant(4))
    assert add_until_shift(watch, again)[1] is None
    number, shift = add_until_shift(watch, simulate(TRAFFIC, 200, random, constant(4)))
    assert shift is not None, number
    assert shift.now.mean > shift.before.mean
    assert watch.num_shifts == 2


def test_short_requests_are_joined() -> None:
    """Three verdicts each: three requests are one value."""
    watch = CategoryWatch()
    for _ in range(6):
        watch.add(AcceptanceSums(6.0, 3.0, 3, [3], [1]))
    assert (watch.num_requests, watch.recent) == (2, 0.5)


def test_there_is_no_flag_in_2000_requests_of_long_passages() -> None:
    watch, random = learned(6)
    assert add_until_shift(watch, simulate(TRAFFIC, 2000, random, constant(4)))[1] is None


def test_short_requests_are_joined_to_one_value() -> None:
    """Five verdicts each: every second request completes a value of eight or more."""
    watch = CategoryWatch()
    request = AcceptanceSums(10.0, 6.0, 5, [5], [3])
    completed = []
    for _ in range(4):
        watch.add(request)
        completed.append(None if watch.completed is None else watch.completed.num_verdicts)
    assert completed == [None, 10, None, 10]
