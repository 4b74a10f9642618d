"""Each contract check fails for a policy that breaks exactly its promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import pytest

from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.contract import find_broken_promises
from paceline.runtime.governor.policies.fixed import FixedPolicy
from paceline.runtime.governor.values import (
    DraftPlan,
    DraftRule,
    EngineLoad,
    StepSample,
    longest_allowed,
)
from paceline.runtime.policy_registry import PolicyContractError, check_policy

MAX = 4


class Sound:
    """Half of the ceiling; keeps every promise. The policies below break one each."""

    def __init__(self, max_draft_length: int) -> None:
        self._max = max_draft_length

    def observe(self, sample: StepSample) -> None:
        """Learns nothing."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(load.longest_allowed(self._max // 2), "half of the maximum")


class Unbuildable(Sound):
    def __init__(self, max_draft_length: int) -> None:
        raise KeyError("model")


class WithoutObserve:
    def __init__(self, max_draft_length: int) -> None:
        pass

    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(0, "off")


class WaitsForASample(Sound):
    last: StepSample | None = None

    def observe(self, sample: StepSample) -> None:
        self.last = sample

    def plan(self, load: EngineLoad) -> DraftPlan:
        assert self.last is not None, "no sample yet"
        return super().plan(load)


class DividesByTheLoad(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(load.longest_allowed(8 // load.num_requests), "by load")


class IgnoresTheCeiling(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        length = longest_allowed(self._max, allowed=load.allowed_lengths)
        return DraftPlan(length, "the ceiling at the start")


class IgnoresTheAllowedLengths(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(min(2, load.max_draft_length), "two, with CUDA graphs or without")


class DividesByTheDuration(Sound):
    def observe(self, sample: StepSample) -> None:
        assert sample.duration_s is not None
        sample.num_requests / sample.duration_s


class TiresOfWaiting(Sound):
    plans_since = 0

    def observe(self, sample: StepSample) -> None:
        self.plans_since = 0

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.plans_since += 1
        if self.plans_since > 500:
            raise TimeoutError("no sample for 500 steps")
        return super().plan(load)


class ChangesSamples(Sound):
    def observe(self, sample: StepSample) -> None:
        object.__setattr__(sample, "is_clean", False)


class Unsteady(Sound):
    """Each new policy continues where the class variable is: a hidden input."""

    numbers = itertools.count()

    def __init__(self, max_draft_length: int) -> None:
        super().__init__(max_draft_length)
        self._offset = next(self.numbers)

    def plan(self, load: EngineLoad) -> DraftPlan:
        length = self._offset % (load.max_draft_length + 1)
        return DraftPlan(load.longest_allowed(length), "by my number")


class Entangled(Sound):
    """Instances used in turn see each other; one after the other they do not."""

    latest: Any = None

    def observe(self, sample: StepSample) -> None:
        Entangled.latest = self

    def plan(self, load: EngineLoad) -> DraftPlan:
        is_alone = Entangled.latest in (None, self)
        if load.num_requests not in (1, 7):
            is_alone = True
        return DraftPlan(load.longest_allowed(self._max if is_alone else 0), "alone or not")


class Trims(Sound):
    """Verifies tokens of confidence 0.4 or more, up to the first other one, where it can."""

    def plan(self, load: EngineLoad) -> DraftPlan:
        rule = self._rule() if load.reports_confidences else None
        return replace(super().plan(load), rule=rule)

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        return [len(list(takewhile(lambda c: c >= 0.4, row))) for row in confidences.tolist()]

    def _rule(self) -> DraftRule:
        return DraftRule({}, 0.4, (0.0,) * (self._max - 1))


class TrimsWithoutConfidences(Trims):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return replace(super().plan(load), rule=self._rule())


class LeavesWidthsToOthers(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        rule = DraftRule({}, 0.4, ())
        return replace(super().plan(load), rule=rule if load.reports_confidences else None)


class HasAnEndlessPass(Trims):
    def _rule(self) -> DraftRule:
        return replace(super()._rule(), pass_tokens=(math.inf,) * (self._max - 1))


class ForgetsARequest(Trims):
    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        return super().choose_widths(confidences, classes, limits)[1:]


class WantsMoreThanWasDrafted(Trims):
    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        return [self._max] * len(classes)


class CountsInFractions(Trims):
    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Any:
        return [0.5] * len(classes)


class ChoosesNothing(Trims):
    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Any:
        return None


class AveragesNothing(Trims):
    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        sum(map(len, classes)) / len(classes)
        return super().choose_widths(confidences, classes, limits)


class SortsTheConfidences(Trims):
    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        confidences.sort(axis=0)
        return super().choose_widths(confidences, classes, limits)


class LooksAhead(Trims):
    """Drops a draft whole if any of its tokens is doubtful: token 1 for what came after it."""

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        num_passes = confidences.shape[1]
        widths = super().choose_widths(confidences, classes, limits)
        return [width if width == num_passes else 0 for width in widths]


class PricesThisStep(Trims):
    """The price is the median of this step's own drafts."""

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        if not confidences.size:
            return [0] * len(classes)
        survival = np.nan_to_num(confidences.clip(0.0, 1.0)).cumprod(axis=1)
        widths: list[int] = (survival >= np.median(survival)).sum(axis=1).tolist()
        return widths


class PricesThisStepLate(PricesThisStep):
    """After some samples only."""

    num_samples = 0

    def observe(self, sample: StepSample) -> None:
        self.num_samples += 1

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        if self.num_samples < 8:
            return [0] * len(classes)
        return super().choose_widths(confidences, classes, limits)


class RemembersConfidences(Trims):
    total = 0.0

    def observe(self, sample: StepSample) -> None:
        round(self.total)

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        self.total += float(confidences.sum())
        return super().choose_widths(confidences, classes, limits)


class KeepsToTheLimits(Trims):
    """A grammar cuts a draft by its tokens, so then the width depends on these."""

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        widths = super().choose_widths(confidences, classes, limits)
        return [min(width, limit) for width, limit in zip(widths, limits, strict=True)]


class PlansANumber(Sound):
    def plan(self, load: EngineLoad) -> Any:
        return 0


class PlansAFraction(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(load.max_draft_length / 2, "half")  # type: ignore[arg-type]


class GivesNoReason(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(0, "")


class GivesBytes(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(0, b"off")  # type: ignore[arg-type]


class ExpectsText(Sound):
    def plan(self, load: EngineLoad) -> DraftPlan:
        return DraftPlan(0, "off", expected_tokens_per_s="many")  # type: ignore[arg-type]


def test_a_sound_policy_breaks_nothing() -> None:
    assert find_broken_promises(lambda: Sound(MAX), MAX) == []
    check_policy(Sound, max_draft_length=MAX)
    check_policy(Trims, max_draft_length=MAX)


@pytest.mark.parametrize(
    ("broken", "promise", "finding"),
    [
        (Unbuildable, "can be built", "building it raised KeyError"),
        (IgnoresTheAllowedLengths, "lengths that are allowed", "(0, 1, 3, 7) are allowed"),
        (WithoutObserve, "has `observe` and `plan`", "WithoutObserve has no method observe"),
        (WaitsForASample, "before the first sample", "plan raised AssertionError"),
        (DividesByTheLoad, "load without requests", "plan raised ZeroDivisionError"),
        (IgnoresTheCeiling, "keeps to the ceiling", "length is 4 under a ceiling of"),
        (DividesByTheDuration, "tolerates extreme samples", "observe raised ZeroDivisionError"),
        (TiresOfWaiting, "tolerates missing samples", "500 steps after the last sample"),
        (ChangesSamples, "leaves samples unchanged", "observe changed StepSample"),
        (Unsteady, "same samples and loads give the same plans", "in step 0"),
        (Entangled, "same samples and loads give the same plans", "the second beside a third"),
        (TrimsWithoutConfidences, "uses only what the engine has", "reports no confidences"),
        (LeavesWidthsToOthers, "uses only what the engine has", "has no choose_widths"),
        (HasAnEndlessPass, "uses only what the engine has", "number that is not finite"),
        (ForgetsARequest, "Widths are from 0", "chose 3 widths for 4 requests"),
        (WantsMoreThanWasDrafted, "Widths are from 0", "whole number from 0 to 1, in step 0"),
        (CountsInFractions, "Widths are from 0", "chose the widths [0.5, "),
        (ChoosesNothing, "Widths are from 0", "'NoneType' has no len()"),
        (AveragesNothing, "Widths are from 0", "choose_widths raised ZeroDivisionError"),
        (SortsTheConfidences, "Widths are from 0", "choose_widths changed the confidences"),
        (LooksAhead, "kept or not before it is drawn", "of the first"),
        (PricesThisStep, "kept or not before it is drawn", "where later tokens have other"),
        (PricesThisStepLate, "kept or not before it is drawn", "in step 8"),
        (RemembersConfidences, "Widths are from 0", "observe raised ValueError"),
        (KeepsToTheLimits, "kept or not before it is drawn", "other limits"),
        (PlansANumber, "plans before the first sample", "returned int instead of a DraftPlan"),
        (PlansAFraction, "plans before the first sample", "is 2.0; it must be a whole number"),
        (GivesNoReason, "plans before the first sample", "has no reason"),
        (GivesBytes, "plans before the first sample", "reason is b'off'; it must be a text"),
        (ExpectsText, "plans before the first sample", "expected_tokens_per_s is 'many'"),
    ],
)
def test_a_broken_promise_is_named(broken: type, promise: str, finding: str) -> None:
    """The check of this promise fails, and its finding says what happened."""
    with pytest.raises(PolicyContractError) as caught:
        check_policy(broken, max_draft_length=MAX)
    found = [str(one) for one in caught.value.broken if promise in one.promise]
    assert len(found) == 1
    assert finding in found[0]
    assert f"- {found[0]}" in str(caught.value)
    assert str(caught.value).startswith(f"policy {broken.__name__} breaks ")


@pytest.mark.parametrize(
    "broken",
    [
        DividesByTheLoad,
        IgnoresTheCeiling,
        DividesByTheDuration,
        TiresOfWaiting,
        ChangesSamples,
        Entangled,
        AveragesNothing,
        LooksAhead,
        PricesThisStep,
        KeepsToTheLimits,
    ],
)
def test_one_fault_breaks_one_promise(broken: type) -> None:
    assert len(find_broken_promises(lambda: broken(MAX), MAX)) == 1


def test_a_policy_for_a_ceiling_of_one_is_checked() -> None:
    assert find_broken_promises(lambda: FixedPolicy(1), 1) == []
    with pytest.raises(ValueError, match="max_draft_length is 0"):
        find_broken_promises(lambda: FixedPolicy(1), 0)


def test_only_what_builds_policies_can_be_checked() -> None:
    """An instance is refused: the checks need new policies."""
    with pytest.raises(ValueError, match="policy is a FixedPolicy; it must be a name"):
        check_policy(FixedPolicy(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="policy is 'best'; it must be one of goodput"):
        check_policy("best")
    with pytest.raises(ValueError, match="policy fixed has no parameter 'speed'"):
        check_policy("fixed", speed=1)
