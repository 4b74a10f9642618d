"""The M/M/c queue and the requests in a replica, against closed forms."""

from __future__ import annotations

import math

import pytest

from paceline.foundation.capacity.queueing import erlang_c, request_probabilities, wait_quantile_s


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


def test_a_replica_of_constant_rate_holds_geometrically_many_requests() -> None:
    """One second of work for all together, 0.5 a second: the M/M/1 queue."""
    probabilities = request_probabilities(0.5, lambda n: n * 1.0, 40)
    assert probabilities[:3] == pytest.approx([0.5, 0.25, 0.125])


def test_requests_that_do_not_slow_one_another_are_poisson() -> None:
    probabilities = request_probabilities(3.0, lambda n: 1.0, 60)
    assert probabilities[:3] == pytest.approx([math.exp(-3), 3 * math.exp(-3), 4.5 * math.exp(-3)])


def test_more_requests_than_a_replica_serves_are_refused() -> None:
    with pytest.raises(ValueError, match=r"4 requests/s arrive .* at most 4/s with its 4 slots"):
        request_probabilities(4.0, lambda n: 1.0, 4)


@pytest.mark.parametrize("load", [0.95, 0.99])
def test_the_limit_for_many_slots_meets_the_sum(load: float) -> None:
    """2000 slots are summed over, 2001 are not."""
    below, above = (erlang_c(slots, load * slots) for slots in (2000, 2001))
    assert above == pytest.approx(below, rel=0.1)


def test_millions_of_slots_take_no_time() -> None:
    assert erlang_c(10**9, 0.85e9) == 0.0
    assert erlang_c(10**9, 10**9 - 1.0) > 0.99
    assert wait_quantile_s(10**9, 0.85e9, 1.0, 0.95) == 0.0
