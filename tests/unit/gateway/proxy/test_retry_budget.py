"""How many retries are allowed."""

import random

import pytest

from paceline.runtime.gateway.proxy.retry_budget import OUTAGE, Charge, RetryBudget
from paceline.runtime.gateway.settings import FailureSettings


def spent(budget: RetryBudget, num_tries: int, now_s: float, charge: Charge = OUTAGE) -> int:
    return sum(budget.try_spend(now_s, charge) for _ in range(num_tries))


def test_a_quiet_service_can_retry() -> None:
    budget = RetryBudget(0.2, 3)
    assert spent(budget, 10, 0.0) == 3


def test_requests_earn_a_fifth_of_a_retry_each() -> None:
    budget = RetryBudget(0.2, 3)
    for _ in range(10):
        budget.note_request(0.0)
    assert budget.num_left(0.0) == 5
    assert spent(budget, 100, 0.0) == 5
    assert budget.num_left(0.0) == 0


def test_what_was_spent_comes_back_and_what_was_earned_expires() -> None:
    budget = RetryBudget(0.5, 2)
    for _ in range(4):
        budget.note_request(0.0)
    assert spent(budget, 9, 5.0) == 4
    assert spent(budget, 9, 12.0) == 0, "the requests have left, the retries have not"
    assert budget.num_left(12.0) == 0, "two fewer than were spent"
    assert spent(budget, 9, 16.0) == 2


@pytest.mark.parametrize("num_in_flight", [64, 256])
def test_a_dead_replica_loses_no_request_of_a_quiet_service(num_in_flight: int) -> None:
    """The requests came long before it died, so nothing but the reserve is left."""
    settings = FailureSettings()
    budget = RetryBudget(settings.retry_fraction, settings.retry_reserve)
    for _ in range(num_in_flight):
        budget.note_request(0.0)
    assert spent(budget, num_in_flight, 60.0) == num_in_flight


def test_when_everything_fails_the_load_grows_by_the_fraction_only() -> None:
    """A hundred requests a second, each of which would retry twice: known truth 100 · 10 · 0.2."""
    budget, num_retries_per_s = RetryBudget(0.2, 0), []
    for second in range(60):
        num_retries = 0
        for index in range(100):
            now_s = second + index / 100
            budget.note_request(now_s)
            num_retries += spent(budget, 2, now_s)
        num_retries_per_s.append(num_retries)
    assert 190 <= sum(num_retries_per_s[-10:]) <= 205


def test_never_more_than_the_formula_in_any_order() -> None:
    rng = random.Random(3)
    budget, now_s = RetryBudget(0.2, 5), 0.0
    requests: list[float] = []
    retries: list[float] = []
    for _ in range(5000):
        now_s += rng.choice((0.0, 0.01, 0.2, 3.0))
        if rng.random() < 0.6:
            budget.note_request(now_s)
            requests.append(now_s)
        elif budget.try_spend(now_s):
            retries.append(now_s)
            recent = [at_s for at_s in retries if at_s > now_s - 9]
            assert len(recent) <= 5 + 0.2 * sum(at_s > now_s - 10 for at_s in requests) + 1e-9


def own_fault(tenant: str | None) -> Charge:
    return Charge(may_be_own_fault=True, tenant=tenant)


def test_requests_that_make_engines_fail_leave_what_others_need_when_a_replica_dies() -> None:
    budget = RetryBudget(0.0, 8)
    assert spent(budget, 100, 0.0, own_fault(None)) == 8
    assert spent(budget, 100, 0.0) == 8


def test_one_tenant_leaves_half_of_the_retries_after_doubtful_failures() -> None:
    budget = RetryBudget(0.0, 8)
    assert spent(budget, 100, 0.0, own_fault("poison")) == 4
    assert spent(budget, 3, 0.0, own_fault("good")) == 3
    assert spent(budget, 100, 0.0, own_fault("late")) == 1
    assert spent(budget, 100, 11.0, own_fault("poison")) == 4, "they came back"


@pytest.mark.parametrize(("reserve", "num"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2)])
def test_a_tenant_may_use_at_least_one_of_a_small_budget(reserve: int, num: int) -> None:
    assert spent(RetryBudget(0.0, reserve), 100, 0.0, own_fault("one")) == num


def test_a_tenant_whose_replica_died_is_not_limited_to_half() -> None:
    budget = RetryBudget(0.0, 8)
    assert spent(budget, 100, 0.0, Charge(may_be_own_fault=False, tenant="one")) == 8


def test_tenants_without_retries_in_the_window_are_forgotten() -> None:
    budget = RetryBudget(0.0, 8)
    for number in range(1000):
        budget.try_spend(number * 5.0, own_fault(f"tenant-{number}"))
    assert len(budget._of_tenants) <= 4
