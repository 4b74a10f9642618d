"""The lanes of waiting requests, and what is counted over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from paceline.runtime.gateway.admission.waiting_requests import WaitingRequests, lane_of
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestCost, RequestPlan
from unit.gateway.admission.plans import UNDRAFTED, plan

ANY = NeedsKind()


@dataclass(eq=False)
class Waiting:
    """A request that waits."""

    plan: RequestPlan
    arrival: int


def three_waiting() -> tuple[WaitingRequests[Waiting], list[Waiting]]:
    """Of two kinds: three sequences, two undrafted ones, one more of three."""
    requests = [
        Waiting(plan(3), 10),
        Waiting(plan(2, needs=UNDRAFTED), 11),
        Waiting(plan(3), 12),
    ]
    waiting: WaitingRequests[Waiting] = WaitingRequests()
    for request in requests:
        waiting.add(request)
    return waiting, requests


@pytest.mark.parametrize(
    ("num_tokens", "token_class"),
    [(0, 0), (16_383, 0), (16_384, 1), (32_767, 1), (32_768, 2), (65_535, 2), (65_536, 3)],
)
def test_the_class_of_the_tokens_doubles(num_tokens: int, token_class: int) -> None:
    large = replace(plan(), cost=RequestCost(5, num_tokens - num_tokens // 3, num_tokens // 3))
    assert lane_of(large) == (ANY, 5, token_class)


def test_what_waits_is_counted_by_kind() -> None:
    waiting, requests = three_waiting()
    assert len(waiting) == 3
    assert set(waiting.kinds()) == {ANY, UNDRAFTED.kind}
    assert [waiting.num_requests(kind) for kind in (ANY, UNDRAFTED.kind)] == [2, 1]
    assert [waiting.num_sequences(kind) for kind in (ANY, UNDRAFTED.kind)] == [6, 2]
    assert all(request in waiting for request in requests)


def test_a_kind_of_which_none_waits_has_no_requests() -> None:
    waiting, _ = three_waiting()
    other = NeedsKind(has_choices=True)
    assert (waiting.num_requests(other), waiting.num_sequences(other)) == (0, 0)
    assert waiting.num_sequences(other, before=100) == 0


def test_only_earlier_requests_count_before_an_arrival() -> None:
    waiting, _ = three_waiting()
    assert [waiting.num_sequences(ANY, before) for before in (10, 11, 12, 13)] == [0, 3, 3, 6]
    assert [waiting.num_sequences(UNDRAFTED.kind, before) for before in (11, 12)] == [0, 2]
    assert [waiting.num_before(arrival) for arrival in (10, 11, 12, 13)] == [0, 1, 2, 3]


def test_the_oldest_is_found_over_the_lanes_that_are_left() -> None:
    waiting, (first, second, third) = three_waiting()
    assert waiting.oldest(()) is first
    assert waiting.oldest({lane_of(first.plan)}) is second
    waiting.remove(first)
    assert waiting.oldest(()) is second
    assert waiting.oldest({lane_of(second.plan)}) is third
    assert waiting.oldest({lane_of(second.plan), lane_of(third.plan)}) is None


def test_a_removed_request_leaves_nothing_behind() -> None:
    waiting, (first, second, third) = three_waiting()
    waiting.remove(first)
    assert (len(waiting), waiting.num_sequences(ANY)) == (2, 3)
    assert waiting.has_lane(lane_of(third.plan))
    assert first not in waiting
    waiting.remove(third)
    assert not waiting.has_lane(lane_of(third.plan))
    assert third not in waiting
    assert set(waiting.kinds()) == {UNDRAFTED.kind}
    assert (waiting.num_requests(ANY), waiting.num_sequences(ANY)) == (0, 0)
    waiting.remove(second)
    assert len(waiting) == 0
    assert waiting.oldest(()) is None
