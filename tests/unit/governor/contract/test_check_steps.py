"""What each contract check drives a policy with: the number of steps, and their loads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.contract import find_broken_promises
from paceline.runtime.governor.contract.samples import extreme_samples
from paceline.runtime.governor.values import DraftPlan, DraftRule, EngineLoad, StepSample

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
        (400, 400),  # only what the engine has
        (0, 50),  # samples unchanged
        *[(240, 240)] * 6,  # repeats itself, at two loads: alone, then beside another
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
    ceilings = [load.max_draft_length for load in ceiling.loads]
    assert set(ceilings[390:400]) == {0, 1, 2, 3, 4}
    assert ceilings[400:] == [0] * 50
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
    """At one request and at 16, with confidences there: alone, and beside another at 7."""
    compared = recorders[-8:-2]
    found = [recorder.loads_with("num_requests") for recorder in compared]
    assert found == [{1}, {1}, {7}, {16}, {16}, {7}]
    found = [recorder.loads_with("reports_confidences") for recorder in compared]
    assert found == [{False}] * 3 + [{True}] * 2 + [{False}]


def test_the_engine_reports_confidences_in_two_steps_of_three(recorders: list[Recorder]) -> None:
    found = [load.reports_confidences for load in recorders[-10].loads]
    assert found == ([False, True, True] * 134)[:400]


def test_the_finding_names_the_first_step_that_differs() -> None:
    """The first of the two policies that are compared plans 2 from step 7 on, all others 1."""
    numbers = count()
    first_compared = NUM_BEFORE + NUM_EXTREME + 3  # three checks between

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
        "planned differently, the second beside a third: in step 7 2 (plan 2) against 1 (plan 1)"
    )


def test_the_finding_names_the_plan_that_another_policy_changed() -> None:
    """Alone it plans 2; while another one observes as well, 1."""
    latest: list[object] = []

    class Entangled(Recorder):
        def observe(self, sample: StepSample) -> None:
            super().observe(sample)
            latest[:] = [self]

        def plan(self, load: EngineLoad) -> DraftPlan:
            is_beside = load.num_requests == 16 and bool(self.samples) and latest[0] is not self
            length = load.longest_allowed(1 if is_beside else 2)
            return DraftPlan(length, f"plan {length}")

    [broken] = find_broken_promises(Entangled, MAX)
    assert str(broken) == (
        "The same samples and loads give the same plans: two new policies in the same engine "
        "planned differently, the second beside a third: in step 1 2 (plan 2) against 1 (plan 1)"
    )


class TrimmingRecorder(Recorder):
    """Plans the longest length, and verifies tokens of confidence 0.4 or more where it can."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Floats, list[str], list[int]]] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        super().plan(load)
        rule = DraftRule({}, 0.4, ()) if load.reports_confidences else None
        return DraftPlan(load.longest_allowed(MAX), "longest", rule=rule)

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        widths: list[int] = (confidences >= 0.4).cumprod(axis=1).sum(axis=1).astype(int).tolist()
        self.calls.append((confidences, list(classes), widths))
        return widths


@pytest.fixture(scope="module")
def trimming() -> list[TrimmingRecorder]:
    found: list[TrimmingRecorder] = []

    def make_policy() -> TrimmingRecorder:
        found.append(TrimmingRecorder())
        return found[-1]

    assert find_broken_promises(make_policy, MAX) == []
    return found


def test_widths_are_chosen_after_extreme_samples(trimming: list[TrimmingRecorder]) -> None:
    """For two requests, one of an unknown class, after each plan with a rule."""
    for recorder in trimming[NUM_BEFORE:][:NUM_EXTREME]:
        assert len(recorder.calls) == 3 * (len(recorder.samples) - 50)
        for confidences, classes, _ in recorder.calls:
            assert (confidences.shape, classes) == ((2, MAX), ["greedy", "of no other"])


def test_each_step_verifies_what_was_chosen_after_the_step_before(
    trimming: list[TrimmingRecorder],
) -> None:
    """Of the policies that are compared, the two at 16 requests, half of them sampled."""
    first = NUM_BEFORE + NUM_EXTREME + 3
    for recorder in trimming[first + 3 : first + 5]:
        start, *samples = recorder.samples
        assert (start.drafted, start.requested, start.confidences) == ((), (), ())
        assert (start.draft_length, start.requested_draft_length) == (MAX, 0)
        assert {len(sample.classes) for sample in samples} == {16}
        assert len({sample.drafted for sample in samples}) > 9
        for (confidences, classes, widths), sample in zip(recorder.calls, samples, strict=False):
            assert sample.classes == tuple(classes) == ("greedy", "sampled") * 8
            assert sample.drafted == sample.requested == tuple(widths)
            assert all(map(np.array_equal, sample.confidences, map(_first, confidences, widths)))
    plain = trimming[first]
    assert plain.calls == []
    assert {sample.drafted for sample in plain.samples} == {(), (MAX,)}
    assert {(sample.classes, sample.confidences) for sample in plain.samples} == {((), ())}


def _first(row: Floats, width: int) -> Floats:
    return row[:width]
