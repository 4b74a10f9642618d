"""The wait for prompts of others against a discrete-event simulation and the policy simulator."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from paceline.foundation.capacity.prompt_queue import PromptWait
from paceline.foundation.planning.decisions.waits import SlotUse, loaded_wait, loaded_wait_s
from unit.plan.served_replica import ServedReplica, quantile

LARGE_GPU = ServedReplica(1000, 100, 0.1, 0.015, 0.0004, token_budget=8192, num_slots=64)
"""A step takes eight prompts."""
SMALL_GPU = ServedReplica(800, 100, 0.1, 0.015, 0.0004, token_budget=2048, num_slots=64)
"""A step takes two prompts and a half."""
LONG_PROMPTS = ServedReplica(6000, 60, 0.6, 0.015, 0.0004, token_budget=4096, num_slots=48)
"""A prompt takes two steps."""
CPU = ServedReplica(250, 60, 0.5, 0.03, 0.002, token_budget=2048, num_slots=64)
REPLICAS = {"large GPU": LARGE_GPU, "small GPU": SMALL_GPU, "long": LONG_PROMPTS, "CPU": CPU}


def predicted(replica: ServedReplica, utilization: float) -> PromptWait:
    return loaded_wait(replica.uses, utilization * replica.served_per_s)


@pytest.mark.parametrize("utilization", [0.3, 0.6, 0.85])
@pytest.mark.parametrize("name", REPLICAS)
def test_time_to_first_token_is_that_of_a_discrete_event_simulation(
    name: str, utilization: float
) -> None:
    replica = REPLICAS[name]
    truth = replica.event_by_event(utilization * replica.served_per_s, 20_000, seed=1)
    wait = predicted(replica, utilization)
    p95_s = replica.prompt_s + wait.quantile_s(0.95)
    assert replica.prompt_s + wait.mean_s == pytest.approx(sum(truth) / len(truth), rel=0.1)
    assert p95_s == pytest.approx(quantile(truth, 0.95), rel=0.1)


def test_time_to_first_token_is_that_of_the_policy_simulator() -> None:
    """It counts what a step costs once, also beside prompts: small against these prompts."""
    replica = ServedReplica(1000, 24, 0.1, 0.012, 0.0004, token_budget=8192, num_slots=64)
    arrivals_per_s = 0.7 * replica.served_per_s
    runs = [replica.in_policy_simulator(arrivals_per_s, 1500, seed=seed) for seed in (1, 2)]
    truth = sorted(runs[0] + runs[1])
    wait = predicted(replica, 0.7)
    p95_s = replica.prompt_s + wait.quantile_s(0.95)
    assert replica.prompt_s + wait.mean_s == pytest.approx(sum(truth) / len(truth), rel=0.1)
    assert p95_s == pytest.approx(quantile(truth, 0.95), rel=0.1)


@pytest.mark.parametrize("name", REPLICAS)
def test_the_wait_grows_with_the_load(name: str) -> None:
    replica = REPLICAS[name]
    waits = [predicted(replica, step / 40) for step in range(1, 39)]
    means = [wait.mean_s for wait in waits]
    assert means == sorted(means)
    for share in (0.95, 0.99):
        quantiles = [wait.quantile_s(share) for wait in waits]
        assert quantiles == sorted(quantiles)


def test_hardly_any_load_waits_for_nothing() -> None:
    assert predicted(LARGE_GPU, 1e-4).quantile_s(0.95) == 0.0


@pytest.mark.parametrize("utilization", [1.0, 1.5])
def test_a_load_that_cannot_be_served_is_refused(utilization: float) -> None:
    message = r"64 slots in use: the wait grows without bound; plan more replicas"
    with pytest.raises(ValueError, match=message):
        predicted(LARGE_GPU, utilization)


def test_a_request_that_is_alone_waits_for_no_prompt() -> None:
    assert LARGE_GPU.slot_use(1).wait_s(0.95) == 0.0
    assert loaded_wait([LARGE_GPU.slot_use(1)], 0.1).quantile_s(0.99) == 0.0


def test_no_request_waits_longer_than_the_prompts_of_all_other_slots_take() -> None:
    """Two slots: one other prompt of 0.6 s in two steps of 16 ms, and the own two."""
    two = replace(LONG_PROMPTS, num_slots=2)
    longest_s = 0.6 + 2 * 0.0158 + 3 * 0.0158
    assert two.slot_use(2).wait_s(0.99) == pytest.approx(longest_s, rel=0.02)
    assert loaded_wait_s(two.uses, 0.8 * two.served_per_s, 0.99) == pytest.approx(
        longest_s, rel=0.02
    )


@pytest.mark.parametrize("num_slots", [1, 2, 3, 5, 10, 48])
@pytest.mark.parametrize("name", REPLICAS)
def test_with_all_slots_in_use_the_wait_is_longest(name: str, num_slots: int) -> None:
    """So an SLO that holds there holds at every load that the slots admit."""
    replica = replace(REPLICAS[name], num_slots=num_slots)
    full = replica.uses[-1]
    for share in (0.5, 0.95, 0.99):
        loaded_s = loaded_wait_s(replica.uses, 0.85 * full.requests_per_s, share)
        assert loaded_s <= full.wait_s(share)


def test_the_wait_grows_with_the_slots_in_use() -> None:
    waits = [use.wait_s(0.95) for use in LARGE_GPU.uses]
    assert waits == sorted(waits)
    assert waits[-1] > waits[1] > LARGE_GPU.step_s


def test_prompts_that_a_full_batch_has_no_room_for_wait_without_bound() -> None:
    """Of 2048 tokens a step 48 are left beside 500 requests with 3 drafts each."""
    crowded = SlotUse(500, 50.0, prefill_s=0.01, step_s=0.02, steps_per_prompt=1000 / 48)
    assert crowded.wait_s(0.95) == math.inf
    with pytest.raises(ValueError, match="--max-num-batched-tokens"):
        crowded.wait_among(40.0)
