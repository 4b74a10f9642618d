"""The price of verifying a token, from the drafts of the step before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paceline.foundation.capacity.cost_table import LoadCosts
from paceline.runtime.governor.drafting.width_price import WidthPrice
from paceline.runtime.governor.values import DraftRule

SURVIVAL = np.array([0.9, 0.6, 0.4, 0.8, 0.3, 0.1])
"""Of two requests. Sorted: 0.9, 0.8, 0.6, 0.4, 0.3, 0.1."""


def costs(step_s: Callable[[int], float], most: int = 40) -> LoadCosts:
    """Of one request that may verify `most` tokens; passes are free."""
    plain_s = step_s(0)
    return LoadCosts(1, plain_s, [step_s(number) - plain_s for number in range(most)], [0.0])


def rule(price: WidthPrice, num_requests: int = 2, **changes: Any) -> DraftRule:
    """The next rule; at a new load 100 tokens a second and 2 ms a token: a price of 0.2."""
    fields: dict[str, Any] = {
        "maps": {},
        "draft_s": [0.0, 0.004, 0.006, 0.009],
        "first_rate": 100.0,
        "first_price_s": 0.002,
    }
    return price.rule(num_requests, **(fields | changes))


def after(step_s: Callable[[int], float]) -> float:
    """The price after one step with these costs."""
    price = WidthPrice()
    rule(price)
    price.settle(2, SURVIVAL, costs(step_s), 3)
    return rule(price).least_survival


def moved(target: float) -> float:
    """0.2, moved three tenths of the way, in the logarithm."""
    return 0.2 * (target / 0.2) ** 0.3


def test_the_first_price_is_the_time_of_a_token_at_the_first_rate() -> None:
    price = WidthPrice()
    assert rule(price).least_survival == pytest.approx(0.2)
    assert price.rate == 100.0


def test_passes_cost_the_tokens_of_their_time() -> None:
    """2 and 3 ms at 100 tokens a second; the first pass is no question of the rule."""
    assert rule(WidthPrice()).pass_tokens == pytest.approx((0.2, 0.3))


def test_the_price_is_at_the_stair_of_the_cost() -> None:
    """Three tokens more cost nothing, a fourth doubles the step: the price lies between the third
    and the fourth, 0.6 and 0.4."""
    assert after(lambda tokens: 0.02 if tokens <= 3 else 0.04) == pytest.approx(moved(0.5))


def test_if_all_tokens_are_worth_it_the_price_is_that_of_one_more() -> None:
    """2 requests and 3.1 tokens in 23.1 ms are 221 tokens a second; one more takes 0.1 ms."""
    assert after(lambda tokens: 0.0225 + 1e-4 * tokens) == pytest.approx(moved(0.0221), rel=1e-3)


def test_the_price_of_one_more_is_at_most_the_chance_of_the_last_one() -> None:
    """Which was worth it: up to six tokens cost nothing, and one more takes 50 ms."""
    assert after(lambda tokens: 0.02 + 0.05 * max(tokens - 6, 0)) == pytest.approx(moved(0.1))


def test_tokens_that_cost_nothing_have_the_least_price() -> None:
    assert after(lambda tokens: 0.02) == pytest.approx(moved(1e-3))


def test_the_price_rises_to_a_whole_token_if_none_is_worth_it() -> None:
    assert after(lambda tokens: 0.02 + 1.0 * tokens) == pytest.approx(moved(1.0))


def test_if_no_token_is_worth_it_the_price_is_that_of_one_more() -> None:
    """2 tokens in 20 ms are 100 tokens a second; one more takes 9.5 ms."""
    assert after(lambda tokens: 0.02 + 0.0095 * tokens) == pytest.approx(moved(0.95))


def test_the_rate_follows_that_of_the_best_set() -> None:
    """Two requests and 0.9 + 0.8 + 0.6 tokens in 20 ms: 215 tokens a second, three tenths."""
    price = WidthPrice()
    rule(price)
    price.settle(2, SURVIVAL, costs(lambda tokens: 0.02 if tokens <= 3 else 0.04), 3)
    assert price.rate == pytest.approx(100.0 + 0.3 * 115.0)


@pytest.mark.parametrize(("num_decoding", "target"), [(2, 0.7), (10, 1.0)])
def test_all_requests_that_yield_a_token_count(num_decoding: int, target: float) -> None:
    """20 ms a step and 6 ms a token. Two requests and 0, 1, 2, 3 tokens: 2.0 / 20, 2.9 / 26, 3.7 /
    32, 4.3 / 38 tokens a ms. The price lies between the second and the third token, 0.8 and 0.6.
    With eight more requests, which take no drafts: 10.0 / 20, 10.9 / 26, so none is worth it."""
    price = WidthPrice()
    rule(price)
    price.settle(num_decoding, SURVIVAL, costs(lambda tokens: 0.020 + 0.006 * tokens), 3)
    assert rule(price).least_survival == pytest.approx(moved(target))


def test_without_drafts_that_could_be_verified_the_price_stays() -> None:
    price = WidthPrice()
    rule(price)
    price.settle(2, np.array([]), costs(lambda tokens: 0.02), 3)
    assert rule(price).least_survival == 0.2
    assert price.rate == 100.0


@pytest.mark.parametrize(
    ("num_requests", "begins_anew"), [(2, False), (3, True), (1, True), (256, True)]
)
def test_another_load_begins_anew(num_requests: int, begins_anew: bool) -> None:
    """By half as many again, or a third fewer."""
    price = WidthPrice()
    rule(price)
    price.settle(2, SURVIVAL, costs(lambda tokens: 0.02), 3)
    assert (rule(price, num_requests).least_survival == 0.2) == begins_anew


def test_a_load_that_drifts_keeps_its_price() -> None:
    price = WidthPrice()
    rule(price, 10)
    price.settle(2, SURVIVAL, costs(lambda tokens: 0.02), 3)
    for num_requests in (12, 15, 19, 24, 30):
        assert rule(price, num_requests).least_survival == pytest.approx(moved(1e-3))


def test_a_forgotten_price_begins_anew() -> None:
    price = WidthPrice()
    rule(price)
    price.settle(2, SURVIVAL, costs(lambda tokens: 0.02), 3)
    price.forget()
    price.settle(
        2, SURVIVAL, costs(lambda tokens: 0.02), 3
    )  # of a step before: nothing to learn from
    assert rule(price).least_survival == 0.2


def test_a_price_is_never_nothing() -> None:
    """Free tokens for thousands of steps, and a first price of nothing."""
    price = WidthPrice()
    assert rule(price, first_price_s=0.0).least_survival == 1e-3
    for _ in range(1000):
        price.settle(2, np.full(6, 1e-9), costs(lambda tokens: 0.02), 3)
    assert rule(price).least_survival == pytest.approx(1e-3)


def test_of_many_tokens_some_numbers_are_compared() -> None:
    """256 requests with 8 tokens; a stair at 1,024 tokens of survival 1, the others at 0.01."""
    survival = np.repeat([1.0, 0.01], 1024)

    def step_s(tokens: int) -> float:
        return 0.02 if tokens <= 1024 else 0.04

    price = WidthPrice()
    rule(price, 256)
    price.settle(256, survival, costs(step_s, 3000), 8)
    found = rule(price, 256).least_survival
    assert math.log(found / 0.2) == pytest.approx(0.3 * math.log(0.505 / 0.2), abs=0.3)
