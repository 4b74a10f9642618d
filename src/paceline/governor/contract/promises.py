"""The promises of a policy, each with a check that reports in words how it is broken.

The checks drive fresh policies with fixed samples; they use neither an engine nor a clock. That a
policy takes microseconds is therefore not checked here (`benchmarks/governor/step_time.py` does).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from paceline.governor.contract.samples import (
    Spread,
    extreme_samples,
    ordinary_load,
    step_of,
    varied_samples,
)
from paceline.governor.policy import Policy
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

MakePolicy = Callable[[], Policy]
"""Builds a new policy, which shares nothing with those built before."""

_NUM_STEPS = 60


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One promise that a policy does not keep."""

    promise: str
    finding: str
    """What happened instead."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.finding}"


class _Broken(Exception):
    """Ends the check of one promise with its finding."""


def find_broken_promises(make_policy: MakePolicy, max_draft_length: int = 8) -> list[BrokenPromise]:
    """Every promise that the policies of `make_policy` break; empty for a policy that keeps all.

    `max_draft_length` is the ceiling that they were built for. Never raises, whatever a policy
    does.
    """
    if max_draft_length < 1:
        raise ValueError(f"max_draft_length is {max_draft_length}; it must be at least 1")
    found = []
    for promise, check in _PROMISES.items():
        try:
            check(make_policy, max_draft_length)
        except _Broken as broken:
            found.append(BrokenPromise(promise, str(broken)))
    return found


def _can_be_built(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    for method in ("observe", "plan"):
        if not callable(getattr(policy, method, None)):
            raise _Broken(f"{type(policy).__name__} has no method {method}")


def _plans_before_the_first_sample(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    for _ in range(100):
        _plan(policy, ordinary_load(ceiling), "before the first sample")


def _plans_for_an_empty_load(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    empty = ordinary_load(ceiling, num_requests=0, context_tokens=0)
    _plan(policy, empty, "for a load without requests, before the first sample")
    for sample in varied_samples(_NUM_STEPS, ceiling):
        _observe(policy, sample, "with ordinary samples")
        _plan(policy, empty, "for a load without requests")


def _plans_for_a_load_that_only_prefills(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    load = ordinary_load(ceiling, prefill_tokens=8000, num_prefilling=4)
    _plan(policy, load, "for requests that are all prefilling, before the first sample")
    for sample in varied_samples(_NUM_STEPS, ceiling):
        _observe(policy, sample, "with ordinary samples")
        prefill = replace(sample, prefill_tokens=8000, num_prefilling=sample.num_requests)
        _observe(policy, replace(prefill, drafted=(), accepted=(), judged=()), "with a prefill")
        _plan(policy, load, "for requests that are all prefilling")


def _keeps_to_the_ceiling(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    spread = Spread(1)
    for sample in varied_samples(400, ceiling):
        _observe(policy, sample, "with ordinary samples")
        lowered = spread.whole(ceiling)
        _plan(policy, ordinary_load(lowered), f"under a ceiling lowered to {lowered}")
    for sample in varied_samples(50, ceiling):
        _observe(policy, sample, "with ordinary samples")
        _plan(policy, ordinary_load(0), "under a ceiling lowered to 0")


def _keeps_to_the_allowed_lengths(make_policy: MakePolicy, ceiling: int) -> None:
    for allowed in ((0, 1, 3, 7), (0, ceiling), (0,)):
        policy = _build(make_policy)
        for number, sample in enumerate(varied_samples(400, ceiling)):
            _observe(policy, sample, "with ordinary samples")
            load = ordinary_load(ceiling, allowed_lengths=allowed, num_requests=1 + number % 40)
            _plan(policy, load, f"where only {allowed} are allowed")


def _tolerates_extreme_samples(make_policy: MakePolicy, ceiling: int) -> None:
    for case, samples in extreme_samples(ceiling).items():
        policy = _build(make_policy)
        for sample in samples:
            _observe(policy, sample, f"with {case}")
            for num_requests in (1, 256, 4096):
                load = ordinary_load(ceiling, num_requests=num_requests, context_tokens=10**7)
                _plan(policy, load, f"with {case}, at {num_requests} requests")
        for sample in varied_samples(50, ceiling):
            _observe(policy, sample, f"with ordinary samples after {case}")
            _plan(policy, ordinary_load(ceiling), f"with ordinary samples after {case}")


def _tolerates_missing_samples(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    for sample in varied_samples(_NUM_STEPS, ceiling):
        _observe(policy, sample, "with ordinary samples")
        _plan(policy, ordinary_load(ceiling), "with ordinary samples")
    for number in range(1, 1001):
        _plan(policy, ordinary_load(ceiling), f"{number} steps after the last sample")


def _leaves_samples_unchanged(make_policy: MakePolicy, ceiling: int) -> None:
    policy = _build(make_policy)
    for sample in varied_samples(50, ceiling):
        before = copy.deepcopy(sample)
        _observe(policy, sample, "with ordinary samples")
        if sample != before:
            raise _Broken(f"observe changed {before} to {sample}")


def _repeats_itself(make_policy: MakePolicy, ceiling: int) -> None:
    for num_requests in (1, 16):
        first, second = (
            [plan for plan, _ in _drive(_build(make_policy), num_requests, ceiling)]
            for _ in range(2)
        )
        _compare(first, second, "two new policies in the same engine planned differently")


def _shares_no_state(make_policy: MakePolicy, ceiling: int) -> None:
    alone = [plan for plan, _ in _drive(_build(make_policy), 4, ceiling)]
    beside, other = _build(make_policy), _build(make_policy)
    others = _drive(other, 7, ceiling)
    together = [plan for (plan, _), _ in zip(_drive(beside, 4, ceiling), others, strict=True)]
    _compare(alone, together, "a policy planned differently while another one was in use")


_PROMISES: dict[str, Callable[[MakePolicy, int], None]] = {
    "A policy can be built and has `observe` and `plan`": _can_be_built,
    "A policy plans before the first sample": _plans_before_the_first_sample,
    "A policy plans for a load without requests": _plans_for_an_empty_load,
    "A policy plans for a load that only prefills": _plans_for_a_load_that_only_prefills,
    "A policy keeps to the ceiling in force, from the next plan on": _keeps_to_the_ceiling,
    "A policy plans lengths that are allowed": _keeps_to_the_allowed_lengths,
    "A policy tolerates extreme samples": _tolerates_extreme_samples,
    "A policy tolerates missing samples": _tolerates_missing_samples,
    "A policy leaves samples unchanged": _leaves_samples_unchanged,
    "The same samples and loads give the same plans": _repeats_itself,
    "Policies share no state": _shares_no_state,
}


def _drive(
    policy: Policy, num_requests: int, ceiling: int
) -> Iterator[tuple[tuple[int, str], StepSample]]:
    """Plans and samples of an engine that drafts what is planned."""
    spread = Spread(num_requests)
    requested = 0
    for step in range(4 * _NUM_STEPS):
        plan = _plan(policy, ordinary_load(ceiling, num_requests=num_requests), f"in step {step}")
        sample = step_of(spread, num_requests, requested, plan.draft_length)
        _observe(policy, sample, f"in step {step}")
        requested = plan.draft_length
        yield (plan.draft_length, plan.reason), sample


def _compare(first: list[tuple[int, str]], second: list[tuple[int, str]], what: str) -> None:
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            raise _Broken(
                f"{what}: in step {step} {one[0]} ({one[1]}) against {other[0]} ({other[1]})"
            )


def _build(make_policy: MakePolicy) -> Policy:
    try:
        return make_policy()
    except Exception as error:
        raise _Broken(f"building it raised {_shown(error)}") from error


def _observe(policy: Policy, sample: StepSample, when: str) -> None:
    try:
        policy.observe(sample)
    except Exception as error:
        raise _Broken(f"observe raised {_shown(error)} {when}") from error


def _plan(policy: Policy, load: EngineLoad, when: str) -> DraftPlan:
    """The policy's plan for the load, checked against the promises about a single plan."""
    try:
        plan = policy.plan(load)
    except Exception as error:
        raise _Broken(f"plan raised {_shown(error)} {when}") from error
    if not isinstance(plan, DraftPlan):
        raise _Broken(f"plan returned {type(plan).__name__} instead of a DraftPlan {when}")
    if type(plan.draft_length) is not int:
        raise _Broken(
            f"the draft length is {plan.draft_length!r}, which is not a whole number, {when}"
        )
    if plan.draft_length > load.max_draft_length:
        raise _Broken(
            f"the draft length is {plan.draft_length} under a ceiling of {load.max_draft_length} "
            f"{when}"
        )
    if plan.draft_length != load.longest_allowed(plan.draft_length):
        raise _Broken(
            f"the draft length is {plan.draft_length}, and {load.allowed_lengths} are allowed, "
            f"{when}"
        )
    if not isinstance(plan.reason, str) or not plan.reason:
        raise _Broken(f"the plan has no reason {when}; its reason is {plan.reason!r}")
    expected = plan.expected_tokens_per_s
    if expected is not None and not isinstance(expected, float | int):
        raise _Broken(f"expected_tokens_per_s is {expected!r}, no float and not None, {when}")
    return plan


def _shown(error: Exception) -> str:
    return f"{type(error).__name__} ({error})"
