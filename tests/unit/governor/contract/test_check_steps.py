"""What each contract check drives a policy with: the number of steps, and their loads."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from paceline.governor.contract import find_broken_promises
from paceline.governor.contract.samples import extreme_samples
from paceline.governor.values import DraftPlan, EngineLoad, StepSample

MAX = 4


class Recorder:
    """Plans 0, and keeps its loads and samples."""

    def __init__(self) -> None:
        self.loads: list[EngineLoad] = []
        self.samples: list[StepSample] = []

    def observe(self, sample: StepSample) -> None:
        self.samples.append(sample)

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.loads.append(load)
        return DraftPlan(0, "off")

    @property
    def size(self) -> tuple[int, int]:
        """Plans and samples."""
        return len(self.loads), len(self.samples)

    def loads_with(self, name: str) -> set[Any]:
        """All values of a field of the loads."""
        return {getattr(load, name) for load in self.loads}


@pytest.fixture(scope="module")
def recorders() -> list[Recorder]:
    """The policies of all checks, in the order of the checks."""
    found: list[Recorder] = []

    def make_policy() -> Recorder:
        found.append(Recorder())
        return found[-1]

    assert find_broken_promises(make_policy, MAX) == []
    return found


NUM_BEFORE, NUM_EXTREME = 8, len(extreme_samples(MAX))
"""Policies of the checks before the one with extreme samples, and of this one."""


def test_checks_look_for_so_many_steps_and_no_longer(recorders: list[Recorder]) -> None:
    """Enough to find late faults, and few enough to be made at every start."""
    sizes = [recorder.size for recorder in recorders]
    assert sizes[:NUM_BEFORE] == [
        (0, 0),  # can be built
        (100, 0),  # before the first sample
        (61, 60),  # a load without requests
        (61, 120),  # a load that only prefills: an ordinary sample and a prefill in each step
        (450, 450),  # the ceiling
        (400, 400),  # the allowed lengths, three sets of them
        (400, 400),
        (400, 400),
    ]
    # Three sizes of load, in a plain engine and in one with all abilities, then 50 ordinary steps.
    assert sizes[NUM_BEFORE:][:NUM_EXTREME] == [
        (6 * len(samples) + 50, len(samples) + 50) for samples in extreme_samples(MAX).values()
    ]
    assert sizes[NUM_BEFORE + NUM_EXTREME :] == [
        (1060, 60),  # missing samples
        (0, 50),  # samples unchanged
        *[(240, 240)] * 7,  # repeats itself, at two loads; alone, then beside another
        (400, 400),  # only what the engine has
        (0, 0),  # widths, of a policy that chooses none
        (0, 0),
    ]


def test_checks_use_these_loads(recorders: list[Recorder]) -> None:
    _, _, empty, prefill, ceiling, *allowed = recorders[:NUM_BEFORE]
    assert {(load.num_requests, load.context_tokens) for load in empty.loads} == {(0, 0)}
    assert {(load.prefill_tokens, load.num_prefilling) for load in prefill.loads} == {(8000, 4)}
    assert {sample.prefill_tokens for sample in prefill.samples} == {0, 8000}
    assert all(
        sample.num_prefilling == sample.num_requests and not sample.drafted
        for sample in prefill.samples
        if sample.prefill_tokens
    )
    assert ceiling.loads_with("max_draft_length") == {0, 1, 2, 3, 4}
    assert [recorder.loads_with("allowed_lengths") for recorder in allowed] == [
        {(0, 1, 3, 7)},
        {(0, 4)},
        {(0,)},
    ]
    for recorder in allowed:
        assert recorder.loads_with("num_requests") == set(range(1, 41))
    for recorder in recorders[NUM_BEFORE:][:NUM_EXTREME]:
        assert recorder.loads_with("num_requests") == {1, 4, 256, 4096}
        assert recorder.loads_with("context_tokens") == {900, 10**7}
        assert recorder.loads_with("reports_confidences") == {False, True}
        assert {len(load.classes) for load in recorder.loads} == {0, 2}


def test_policies_are_compared_at_these_loads(recorders: list[Recorder]) -> None:
    """Twice at one request and at 16; then one at 4, alone and beside another at 7."""
    compared = recorders[-10:-3]
    found = [recorder.loads_with("num_requests") for recorder in compared]
    assert found == [{1}, {1}, {16}, {16}, {4}, {4}, {7}]


def test_the_engine_reports_confidences_in_two_steps_of_three(recorders: list[Recorder]) -> None:
    found = [load.reports_confidences for load in recorders[-3].loads]
    assert found == ([False, True, True] * 134)[:400]


def test_the_finding_names_the_first_step_that_differs() -> None:
    """The first of the two policies that are compared plans 2 from step 7 on, all others 1."""
    numbers = count()
    first_compared = NUM_BEFORE + NUM_EXTREME + 2  # missing samples and samples unchanged between

    class Numbered(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self._length = 2 if next(numbers) == first_compared else 1

        def plan(self, load: EngineLoad) -> DraftPlan:
            length = load.longest_allowed(self._length if len(self.samples) >= 7 else 0)
            return DraftPlan(length, f"plan {length}")

    [broken] = find_broken_promises(Numbered, MAX)
    assert str(broken) == (
        "The same samples and loads give the same plans: two new policies in the same engine "
        "planned differently: in step 7 2 (plan 2) against 1 (plan 1)"
    )


def test_the_finding_names_the_plan_that_another_policy_changed() -> None:
    """Alone it plans 2; while another one observes as well, 1."""
    latest: list[object] = []

    class Entangled(Recorder):
        def observe(self, sample: StepSample) -> None:
            super().observe(sample)
            latest[:] = [self]

        def plan(self, load: EngineLoad) -> DraftPlan:
            is_beside = load.num_requests == 4 and bool(self.samples) and latest[0] is not self
            length = load.longest_allowed(1 if is_beside else 2)
            return DraftPlan(length, f"plan {length}")

    [broken] = find_broken_promises(Entangled, MAX)
    assert str(broken) == (
        "Policies share no state: a policy planned differently while another one was in use: "
        "in step 1 2 (plan 2) against 1 (plan 1)"
    )
