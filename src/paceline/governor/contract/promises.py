"""The promises of a policy, each with a check that reports in words how it is broken.

The checks drive fresh policies with fixed samples; they use neither an engine nor a clock. That a
policy takes microseconds is therefore not checked here (`benchmarks/governor/step_time.py` does).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from paceline.governor.contract.driving import (
    Broken,
    MakePolicy,
    build,
    choose_widths,
    observe,
    plan,
)
from paceline.governor.contract.samples import (
    Spread,
    extreme_samples,
    ordinary_load,
    rich_load,
    step_of,
    varied_confidences,
    varied_samples,
)
from paceline.governor.contract.width_promises import (
    chooses_widths_before_the_tokens,
    keeps_widths_within_the_drafts,
)
from paceline.governor.policy import ChoosesWidths, Policy
from paceline.governor.values import StepSample

_NUM_STEPS = 60


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """One promise that a policy does not keep."""

    promise: str
    finding: str
    """What happened instead."""

    def __str__(self) -> str:
        return f"{self.promise}: {self.finding}"


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
        except Broken as broken:
            found.append(BrokenPromise(promise, str(broken)))
    return found


def _can_be_built(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    for method in ("observe", "plan"):
        if not callable(getattr(policy, method, None)):
            raise Broken(f"{type(policy).__name__} has no method {method}")


def _plans_before_the_first_sample(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    for _ in range(100):
        plan(policy, ordinary_load(ceiling), "before the first sample")


def _plans_for_an_empty_load(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    empty = ordinary_load(ceiling, num_requests=0, context_tokens=0)
    plan(policy, empty, "for a load without requests, before the first sample")
    for sample in varied_samples(_NUM_STEPS, ceiling):
        observe(policy, sample, "with ordinary samples")
        plan(policy, empty, "for a load without requests")


def _plans_for_a_load_that_only_prefills(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    load = ordinary_load(ceiling, prefill_tokens=8000, num_prefilling=4)
    plan(policy, load, "for requests that are all prefilling, before the first sample")
    for sample in varied_samples(_NUM_STEPS, ceiling):
        observe(policy, sample, "with ordinary samples")
        prefill = replace(sample, prefill_tokens=8000, num_prefilling=sample.num_requests)
        observe(policy, replace(prefill, drafted=(), accepted=(), judged=()), "with a prefill")
        plan(policy, load, "for requests that are all prefilling")


def _keeps_to_the_ceiling(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    spread = Spread(1)
    for sample in varied_samples(400, ceiling):
        observe(policy, sample, "with ordinary samples")
        lowered = spread.whole(ceiling)
        plan(policy, ordinary_load(lowered), f"under a ceiling lowered to {lowered}")
    for sample in varied_samples(50, ceiling):
        observe(policy, sample, "with ordinary samples")
        plan(policy, ordinary_load(0), "under a ceiling lowered to 0")


def _keeps_to_the_allowed_lengths(make_policy: MakePolicy, ceiling: int) -> None:
    for allowed in ((0, 1, 3, 7), (0, ceiling), (0,)):
        policy = build(make_policy)
        for number, sample in enumerate(varied_samples(400, ceiling)):
            observe(policy, sample, "with ordinary samples")
            load = ordinary_load(ceiling, allowed_lengths=allowed, num_requests=1 + number % 40)
            plan(policy, load, f"where only {allowed} are allowed")


def _tolerates_extreme_samples(make_policy: MakePolicy, ceiling: int) -> None:
    for case, samples in extreme_samples(ceiling).items():
        policy, spread = build(make_policy), Spread(5)
        for sample in samples:
            observe(policy, sample, f"with {case}")
            for num_requests in (1, 256, 4096):
                when = f"with {case}, at {num_requests} requests"
                load = ordinary_load(ceiling, num_requests=num_requests, context_tokens=10**7)
                plan(policy, load, when)
                rich = rich_load(ceiling, num_requests=num_requests, context_tokens=10**7)
                planned = plan(policy, rich, f"{when} of known classes, with confidences")
                if planned.rule is not None and isinstance(policy, ChoosesWidths):
                    confidences = varied_confidences(spread, 2, ceiling)
                    choose_widths(policy, confidences, ["greedy", "of no other"], when)
        for sample in varied_samples(50, ceiling):
            observe(policy, sample, f"with ordinary samples after {case}")
            plan(policy, ordinary_load(ceiling), f"with ordinary samples after {case}")


def _tolerates_missing_samples(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    for sample in varied_samples(_NUM_STEPS, ceiling):
        observe(policy, sample, "with ordinary samples")
        plan(policy, ordinary_load(ceiling), "with ordinary samples")
    for number in range(1, 1001):
        plan(policy, ordinary_load(ceiling), f"{number} steps after the last sample")


def _leaves_samples_unchanged(make_policy: MakePolicy, ceiling: int) -> None:
    policy = build(make_policy)
    for sample in varied_samples(50, ceiling):
        before = copy.deepcopy(sample)
        observe(policy, sample, "with ordinary samples")
        if sample != before:
            raise Broken(f"observe changed {before} to {sample}")


def _repeats_itself(make_policy: MakePolicy, ceiling: int) -> None:
    for num_requests in (1, 16):
        first, second = (
            [planned for planned, _ in _drive(build(make_policy), num_requests, ceiling)]
            for _ in range(2)
        )
        _compare(first, second, "two new policies in the same engine planned differently")


def _shares_no_state(make_policy: MakePolicy, ceiling: int) -> None:
    alone = [planned for planned, _ in _drive(build(make_policy), 4, ceiling)]
    beside, other = build(make_policy), build(make_policy)
    others = _drive(other, 7, ceiling)
    together = [planned for (planned, _), _ in zip(_drive(beside, 4, ceiling), others, strict=True)]
    _compare(alone, together, "a policy planned differently while another one was in use")


def _uses_only_what_the_engine_has(make_policy: MakePolicy, ceiling: int) -> None:
    # Every plan of every check is held to it (`driving.plan`); here abilities come and go.
    policy = build(make_policy)
    for number, sample in enumerate(varied_samples(400, ceiling)):
        observe(policy, sample, "with ordinary samples")
        load = rich_load(ceiling, reports_confidences=number % 3 > 0)
        plan(policy, load, "in an engine whose abilities come and go")


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
    "A policy uses only what the engine has": _uses_only_what_the_engine_has,
    "Widths are from 0 to the number of passes": keeps_widths_within_the_drafts,
    "A token is kept or not before it is drawn": chooses_widths_before_the_tokens,
}


def _drive(
    policy: Policy, num_requests: int, ceiling: int
) -> Iterator[tuple[tuple[int, str], StepSample]]:
    """Plans and samples of an engine that drafts what is planned."""
    spread = Spread(num_requests)
    requested = 0
    for step in range(4 * _NUM_STEPS):
        planned = plan(policy, ordinary_load(ceiling, num_requests=num_requests), f"in step {step}")
        sample = step_of(spread, num_requests, requested, planned.draft_length)
        observe(policy, sample, f"in step {step}")
        requested = planned.draft_length
        yield (planned.draft_length, planned.reason), sample


def _compare(first: list[tuple[int, str]], second: list[tuple[int, str]], what: str) -> None:
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            raise Broken(
                f"{what}: in step {step} {one[0]} ({one[1]}) against {other[0]} ({other[1]})"
            )
