"""The contract checks look long enough: faults that show late, or at some loads only, are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from paceline.runtime.governor.contract import find_broken_promises
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample

MAX = 4


@dataclass
class Seen:
    """What a policy has seen when it plans or observes."""

    plans: int = 0
    samples: list[StepSample] = field(default_factory=list)
    plans_since: int = 0
    load: EngineLoad | None = None


@dataclass
class Faulty:
    """Plans 0; raises when `fails` says so of what it has seen."""

    fails: Callable[[Seen], bool]
    seen: Seen = field(default_factory=Seen)

    def observe(self, sample: StepSample) -> None:
        self.seen.samples.append(sample)
        self.seen.plans_since, self.seen.load = 0, None
        self._check()

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.seen.plans += 1
        self.seen.plans_since += 1
        self.seen.load = load
        self._check()
        return DraftPlan(0, "off")

    def _check(self) -> None:
        if self.fails(self.seen):
            raise RuntimeError("planted")


def loaded(seen: Seen) -> EngineLoad:
    """The load of the plan under way; one that no check uses while a sample is observed."""
    return EngineLoad(-1, 0, 0, 0, 0) if seen.load is None else seen.load


def is_extreme(seen: Seen) -> bool:
    """The step before was none of a healthy engine."""
    return bool(seen.samples) and seen.samples[-1].duration_s == 1e6


@pytest.mark.parametrize(
    ("fails", "promise"),
    [
        (lambda seen: seen.plans == 100 and not seen.samples, "before the first sample"),
        (
            lambda seen: loaded(seen).num_requests == 0 and not seen.samples,
            "load without requests",
        ),
        (
            lambda seen: loaded(seen).num_requests == 0 and len(seen.samples) == 60,
            "load without requests",
        ),
        (
            lambda seen: len(seen.samples) == 400 and 0 < loaded(seen).max_draft_length < MAX,
            "keeps to the ceiling",
        ),
        (
            lambda seen: len(seen.samples) == 450 and loaded(seen).max_draft_length == 0,
            "keeps to the ceiling",
        ),
        (lambda seen: is_extreme(seen) and loaded(seen).num_requests == 1, "extreme samples"),
        (lambda seen: is_extreme(seen) and loaded(seen).num_requests == 256, "extreme samples"),
        (lambda seen: is_extreme(seen) and loaded(seen).num_requests == 4096, "extreme samples"),
        (
            lambda seen: is_extreme(seen) and loaded(seen).context_tokens >= 10**7,
            "extreme samples",
        ),
        (lambda seen: is_extreme(seen) and loaded(seen).reports_confidences, "extreme samples"),
        (
            lambda seen: (
                len(seen.samples) == 100
                and seen.samples[0].duration_s == 1e6
                and loaded(seen).num_requests == 4
            ),
            "extreme samples",
        ),
        (lambda seen: seen.plans_since == 1001, "missing samples"),
        (lambda seen: len(seen.samples) == 60 and seen.plans_since == 2, "missing samples"),
        (
            lambda seen: len(seen.samples) == 240 and len(seen.samples[-1].drafted) == 0,
            "same samples and loads",
        ),
        (
            lambda seen: len(seen.samples) > 100 and loaded(seen).num_requests == 16,
            "same samples and loads",
        ),
        (
            lambda seen: len(seen.samples) > 100 and loaded(seen).num_requests == 7,
            "same samples and loads",
        ),
        (
            lambda seen: (
                len(seen.samples) == 400
                and not loaded(seen).reports_confidences
                and bool(loaded(seen).classes)
            ),
            "only what the engine has",
        ),
    ],
)
def test_a_late_fault_is_found(fails: Callable[[Seen], bool], promise: str) -> None:
    broken = find_broken_promises(lambda: Faulty(fails), MAX)
    assert any(promise in found.promise for found in broken)


class ChangesLate(Faulty):
    """Changes the 50th sample."""

    def observe(self, sample: StepSample) -> None:
        super().observe(sample)
        if len(self.seen.samples) == 50:
            object.__setattr__(sample, "context_tokens", 1)


def test_a_change_of_the_fiftieth_sample_is_found() -> None:
    broken = find_broken_promises(lambda: ChangesLate(lambda seen: False), MAX)
    assert [found.promise for found in broken] == ["A policy leaves samples unchanged"]


def test_a_policy_of_another_ceiling_is_checked_up_to_it() -> None:
    """The default is 8: a policy that fails at 8 is found without saying so."""

    def fails(seen: Seen) -> bool:
        return loaded(seen).max_draft_length == 8

    assert find_broken_promises(lambda: Faulty(fails))
    assert not find_broken_promises(lambda: Faulty(fails), 7)
