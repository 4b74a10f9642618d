"""The M/M/c queue against its closed forms."""

from __future__ import annotations

import math

import pytest

from paceline.capacity.queueing import erlang_c, wait_quantile_s


def test_one_slot_is_busy_as_often_as_it_is_loaded() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)


def test_three_slots_against_the_sum_of_the_definition() -> None:
    load = 2.0
    waiting = load**3 / 6 * 3 / (3 - load)
    free = 1 + load + load**2 / 2
    assert erlang_c(3, load) == pytest.approx(waiting / (free + waiting))


def test_an_overloaded_queue_has_no_end() -> None:
    assert erlang_c(2, 2.0) == 1.0
    assert wait_quantile_s(2, 1.0, 2.0, 0.95) == math.inf


def test_few_requests_wait_where_most_slots_are_free() -> None:
    assert wait_quantile_s(100, 1.0, 10.0, 0.95) == 0.0


def test_large_pools_wait_less_at_the_same_load() -> None:
    waits = [wait_quantile_s(slots, slots * 0.09, 10.0, 0.95) for slots in (1, 10, 100)]
    assert waits == sorted(waits, reverse=True)
