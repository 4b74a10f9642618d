"""What every policy and every estimator of the governor keeps to, found by themselves.

A class of the package with `plan` and `observe` is a policy; one with `observe` alone an estimator,
of samples or of numbers. A new one is checked as soon as it exists; should it need an argument that
`_ARGUMENTS` does not know, the tests say so.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pkgutil
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_type_hints

import pytest

import paceline.governor
from paceline.governor.estimates.cost import CostModel
from paceline.governor.exploration.exploration_budget import ExplorationBudget
from paceline.governor.policy import Policy
from paceline.governor.values import EngineLoad, ReplayScores, StepSample
from paceline.policy_simulator.engine.engine import SimulatedEngine
from paceline.policy_simulator.machines.cost import LinearCost
from paceline.policy_simulator.machines.machine import Machine
from paceline.policy_simulator.traffic.traffic import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)

MAX = 8
_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "max_draft_length": lambda: MAX,
    "draft_length": lambda: 3,
    "ranges": lambda: [(1, 4, 5), (5, 32, 2), (33, 512, 0)],
    "account": ExplorationBudget,
    "cost": CostModel,
    "objective_s": lambda: 0.05,
}


def _classes() -> Iterator[type]:
    for info in pkgutil.walk_packages(paceline.governor.__path__, "paceline.governor."):
        module = importlib.import_module(info.name)
        for name, found in inspect.getmembers(module, inspect.isclass):
            is_own = found.__module__ == module.__name__ and not name.startswith("_")
            if is_own and hasattr(found, "observe") and found is not Policy:
                yield found


def _observes_samples(found: type) -> bool:
    hints = get_type_hints(found.observe)  # type: ignore[attr-defined]
    return StepSample in hints.values()


ALL = list(_classes())
POLICIES = [found for found in ALL if hasattr(found, "plan")]
SAMPLED = [found for found in ALL if not hasattr(found, "plan") and _observes_samples(found)]
NUMERIC = [found for found in ALL if not hasattr(found, "plan") and not _observes_samples(found)]


def build(found: type) -> Any:
    required = [
        name
        for name, parameter in inspect.signature(found).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    unknown = set(required) - set(_ARGUMENTS)
    assert not unknown, f"{found.__name__} needs {unknown}: add it to _ARGUMENTS"
    return found(**{name: _ARGUMENTS[name]() for name in required})


def sample(**changes: Any) -> StepSample:
    values: dict[str, Any] = {
        "num_requests": 4,
        "asked_draft_length": 3,
        "drafted": (3, 3, 3, 0),
        "accepted": (0, 1, 3, 0),
        "verified_draft_tokens": 9,
        "draft_length": 3,
        "prefill_tokens": 0,
        "context_tokens": 900,
        "duration_s": 0.03,
        "is_clean": True,
    }
    return StepSample(**(values | changes))


def load(**changes: Any) -> EngineLoad:
    values = {
        "num_requests": 4,
        "context_tokens": 900,
        "prefill_tokens": 0,
        "num_waiting": 0,
        "max_draft_length": MAX,
    }
    return EngineLoad(**(values | changes))


def ordinary(num_samples: int, seed: int = 0) -> list[StepSample]:
    """Samples of a healthy engine, from a seed."""
    draw = random.Random(seed)
    samples = []
    for _ in range(num_samples):
        asked, num_requests = draw.randint(0, MAX), draw.randint(1, 8)
        drafted = tuple(asked for _ in range(num_requests)) if asked else ()
        samples.append(
            sample(
                num_requests=num_requests,
                asked_draft_length=asked,
                drafted=drafted,
                accepted=tuple(draw.randint(0, count) for count in drafted),
                verified_draft_tokens=sum(drafted),
                draft_length=draw.randint(0, MAX),
                duration_s=0.02 + 0.001 * sum(drafted) + 0.001 * draw.random(),
            )
        )
    return samples


ALL_ACCEPTED = {"drafted": (8,) * 256, "accepted": (8,) * 256, "verified_draft_tokens": 2048}
NONE_ACCEPTED = {"drafted": (8,) * 256, "accepted": (0,) * 256, "verified_draft_tokens": 2048}
CROWD = {"num_requests": 256, "asked_draft_length": 8, "draft_length": 8}
GOOD_REPLAY_SCORES = ReplayScores((8,) * 16, (8,) * 16, 144, 0, 0.001)
EXTREMES = {
    "zero durations": [sample(duration_s=0.0)] * 50,
    "a zero duration among others": [sample(), sample(duration_s=0.0), sample()],
    "no durations": [sample(duration_s=None)] * 50,
    "endless steps": [sample(duration_s=1e6)] * 50,
    "instant steps": [sample(duration_s=1e-12)] * 50,
    "from instant to endless": [sample(duration_s=10.0**power) for power in range(-12, 7)],
    "nothing judged": [sample(drafted=(), accepted=())] * 50,
    "no requests": [sample(num_requests=0, drafted=(), accepted=(), verified_draft_tokens=0)] * 9,
    "never clean": [sample(is_clean=False)] * 50,
    "prefill only": [sample(prefill_tokens=8192, is_clean=False, drafted=(), accepted=())] * 50,
    "always catching up": [sample(catches_up=True, is_clean=False)] * 50,
    "catching up over no context": [sample(catches_up=True, context_tokens=0)] * 9,
    "256 requests, all accepted": [sample(**CROWD, **ALL_ACCEPTED)] * 300,
    "256 requests, none accepted": [sample(**CROWD, **NONE_ACCEPTED)] * 300,
    "turning every step": [sample(**CROWD, **ALL_ACCEPTED), sample(**CROWD, **NONE_ACCEPTED)] * 99,
    "ten million tokens of context": [sample(context_tokens=10**7)] * 50,
    "drafts that nobody asked for": [sample(asked_draft_length=0)] * 50,
    "drafts beyond the ceiling": [
        sample(asked_draft_length=20, drafted=(20,), accepted=(20,), verified_draft_tokens=20)
    ]
    * 50,
    "the same stale sample": [sample()] * 300,
    "hindsight that nobody asked for": [sample(replay_scores=GOOD_REPLAY_SCORES)] * 50,
    "hindsight of nothing": [sample(replay_scores=ReplayScores((), (), 0, 0, 0.0))] * 50,
    "hindsight that takes forever": [sample(replay_scores=ReplayScores((8,), (0,), 64, 10**7, 1e6))]
    * 50,
    "hindsight beyond the ceiling": [sample(replay_scores=ReplayScores((99,), (99,), 99, 0, 0.0))]
    * 50,
    "hindsight that turns": [
        sample(replay_scores=GOOD_REPLAY_SCORES),
        sample(replay_scores=ReplayScores((8,) * 64, (0,) * 64, 64, 0, 0.001)),
    ]
    * 50,
}


def test_something_was_found() -> None:
    """The discovery works: it finds what certainly exists."""
    names = {found.__name__ for found in POLICIES}
    assert names >= {"GoodputPolicy", "ThresholdPolicy", "SchedulePolicy", "FixedPolicy"}
    assert {found.__name__ for found in SAMPLED} >= {"AcceptanceModel", "CostModel"}


@pytest.mark.parametrize("found", POLICIES + SAMPLED)
def test_samples_are_not_mutated(found: type) -> None:
    """Frozen as they are, nothing about them has changed afterwards."""
    samples = ordinary(50)
    before = copy.deepcopy(samples)
    built = build(found)
    for one in samples:
        built.observe(one)
    assert samples == before


@pytest.mark.parametrize("found", POLICIES)
@pytest.mark.parametrize("num_requests", [1, 256])
def test_a_seeded_run_is_repeated_exactly(found: type, num_requests: int) -> None:
    """Twice through the simulator: the same lengths, step by step."""
    assert _simulate(build(found), num_requests, 60) == _simulate(build(found), num_requests, 60)


@pytest.mark.parametrize("found", SAMPLED)
def test_the_same_samples_make_the_same_estimator(found: type) -> None:
    """All numbers within are equal, and stay so after a copy."""
    first, second = build(found), build(found)
    for one in ordinary(80):
        first.observe(one)
        second.observe(one)
    assert list(_numbers(first)) == list(_numbers(second))
    copied = copy.deepcopy(first)
    for one in ordinary(20, seed=1):
        first.observe(one)
        copied.observe(one)
    assert list(_numbers(first)) == list(_numbers(copied))


@pytest.mark.parametrize("found", POLICIES)
def test_with_nothing_observed_there_is_a_plan(found: type) -> None:
    """A hundred plans before the first sample."""
    policy = build(found)
    for _ in range(100):
        _check_plan(policy, load())


@pytest.mark.parametrize("found", POLICIES)
def test_an_empty_load_has_a_plan(found: type) -> None:
    """No requests, before and after learning."""
    policy = build(found)
    empty = load(num_requests=0, context_tokens=0)
    _check_plan(policy, empty)
    for one in ordinary(60):
        policy.observe(one)
        _check_plan(policy, empty)


@pytest.mark.parametrize("found", POLICIES)
def test_the_ceiling_holds_at_once(found: type) -> None:
    """It falls to 0 and rises again from one plan to the next, while samples say otherwise."""
    policy = build(found)
    draw = random.Random(1)
    for one in ordinary(400):
        policy.observe(one)
        _check_plan(policy, load(max_draft_length=draw.randint(0, MAX)))
    for one in ordinary(50):
        policy.observe(one)
        assert policy.plan(load(max_draft_length=0)).draft_length == 0


@pytest.mark.parametrize("found", POLICIES)
@pytest.mark.parametrize("samples", EXTREMES.values(), ids=EXTREMES.keys())
def test_a_policy_survives_extremes(found: type, samples: list[StepSample]) -> None:
    """Plans stay valid meanwhile, from one request to 4,096, and afterwards too."""
    policy = build(found)
    for one in samples:
        policy.observe(one)
        for num_requests in (1, 256, 4096):
            crowd = load(num_requests=num_requests, context_tokens=10**7)
            _check_plan(policy, crowd)
            _check_plan(policy, replace(crowd, has_replay_scoring=True))
    for one in ordinary(50):
        policy.observe(one)
        _check_plan(policy, load())


@pytest.mark.parametrize("found", SAMPLED)
@pytest.mark.parametrize("samples", EXTREMES.values(), ids=EXTREMES.keys())
def test_an_estimator_survives_extremes(found: type, samples: list[StepSample]) -> None:
    """Every number in it stays finite."""
    estimator = build(found)
    for one in [*samples, *ordinary(20), *samples]:
        estimator.observe(one)
        assert all(map(math.isfinite, _numbers(estimator)))


@pytest.mark.parametrize("found", POLICIES)
def test_samples_may_stay_away(found: type) -> None:
    """Learned, then blind for a thousand plans: still within the ceiling."""
    policy = build(found)
    for one in ordinary(60):
        policy.observe(one)
        policy.plan(load())
    for _ in range(1000):
        _check_plan(policy, load())


@pytest.mark.parametrize("found", NUMERIC)
def test_an_estimator_of_numbers_survives_extremes(found: type) -> None:
    """Zeros, huge ones, infinite ones: it answers, and is finite within; twice the same."""
    numbers = [0.0, 1.0, -1.0, 1e300, -1e300, math.inf, -math.inf, 0.5] * 20
    first, second = build(found), build(found)
    assert [first.observe(x) for x in numbers] == [second.observe(x) for x in numbers]
    assert all(map(math.isfinite, _numbers(first)))


def _check_plan(policy: Policy, offered: EngineLoad) -> None:
    plan = policy.plan(offered)
    assert type(plan.draft_length) is int
    assert 0 <= plan.draft_length <= offered.max_draft_length
    assert plan.reason
    assert plan.replay_scoring_tokens == 0 or offered.has_replay_scoring


def _simulate(policy: Policy, num_requests: int, num_steps: int) -> list[int]:
    cost = LinearCost(0.02, 0.0005, 0.0002, 0.0003, 0.0002, 0.002, 0.00005)
    machine = Machine(cost, MAX, 256, 2048, "keeps_up", is_async=True)
    kind = TrafficClass("text", Lengths(5, 50), Lengths(20, 200), DraftTruth((0.7, 0.6)))
    phase = Phase("steps", ClosedLoop(num_requests), (kind,), num_steps=num_steps)
    lengths: list[int] = SimulatedEngine(machine, policy, seed=7).run(phase).draft_length.tolist()
    return lengths


def _numbers(value: Any) -> Iterator[float]:
    """All numbers inside, in a fixed order, through attributes and containers."""
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield from _numbers(value[key])
    elif isinstance(value, set | frozenset):
        yield from _numbers(sorted(value))
    elif hasattr(value, "tolist"):
        yield from _numbers(value.tolist())
    elif isinstance(value, list | tuple) or type(value).__name__ == "deque":
        for entry in value:
            yield from _numbers(entry)
    elif type(value).__module__.startswith(paceline.governor.__name__):
        slots = [name for owner in type(value).__mro__ for name in getattr(owner, "__slots__", ())]
        for name in sorted({*slots, *getattr(value, "__dict__", {})}):
            yield from _numbers(getattr(value, name))
