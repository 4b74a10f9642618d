"""The engine loop: closed forms on constant acceptance, and what arms and policies are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.governor.recorded_drafts.arms import FixedLength, PolicyVariant, build_arm
from benchmarks.governor.recorded_drafts.governed import GovernedArm
from benchmarks.governor.recorded_drafts.machines import (
    DRAFTING_MODES,
    DraftingMode,
    MeasuredNoise,
    build_machine,
)
from benchmarks.governor.recorded_drafts.recordings import Floats, read_recordings
from benchmarks.governor.recorded_drafts.replay import Batch, Drafts, Phase, Replay, StepResult
from paceline.runtime.governor.values import DraftPlan, DraftRule, EngineLoad, StepSample
from unit.benchmarks.governor.recorded_drafts.constant_acceptance import accepting

TWIN = build_machine("cpu-twin")


class ScriptedPolicy:
    """Plans the lengths it was given, in turn, and keeps what it is shown."""

    def __init__(self, *lengths: int) -> None:
        self._lengths = lengths
        self.loads: list[EngineLoad] = []
        self.samples: list[StepSample] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.loads.append(load)
        length = self._lengths[(len(self.loads) - 1) % len(self._lengths)]
        return DraftPlan(length, "scripted")

    def observe(self, sample: StepSample) -> None:
        self.samples.append(sample)


class RecordingArm(FixedLength):
    """Holds a length and counts the tokens of every request."""

    def __init__(self, draft_length: int) -> None:
        super().__init__(draft_length)
        self.texts: dict[int, int] = {}
        self.tokens: Counter[int] = Counter()
        self.ended: list[int] = []

    def learn(self, batch: Batch, drafts: Drafts, result: StepResult) -> None:
        serials = batch.serials.tolist()
        self.texts |= dict(zip(serials, batch.texts.tolist(), strict=True))
        self.tokens.update(dict(zip(serials, result.emitted.tolist(), strict=True)))
        self.ended += batch.serials[result.ended].tolist()


def test_a_fixed_length_has_the_rate_of_its_closed_form() -> None:
    """Of 4 tokens 2 are accepted, so each request moves on by 3 in a step; texts of 60 end even."""
    phase = Phase(("code",), 4, tokens_per_request=60, seed=0)
    result = Replay(TWIN, accepting(2), FixedLength(4)).run(phase)
    assert (result.tokens, result.num_steps) == (240, 20)
    assert result.seconds == pytest.approx(20 * TWIN.step_s(4, 16, 4))


def test_the_clairvoyant_verifies_what_is_accepted_and_no_more() -> None:
    phase = Phase(("code",), 4, tokens_per_request=60, seed=0)
    result = Replay(TWIN, accepting(2), build_arm("clairvoyant", TWIN, 0)).run(phase)
    assert result.seconds == pytest.approx(20 * TWIN.step_s(4, 8, 2))


def test_sglangs_rule_keeps_the_length_that_it_begins_with_for_two_accepted_tokens() -> None:
    phase = Phase(("code",), 4, tokens_per_request=60, seed=0)
    result = Replay(TWIN, accepting(2), build_arm("sglang-ema", TWIN, 0)).run(phase)
    assert result.seconds == pytest.approx(20 * TWIN.step_s(4, 12, 3))


@pytest.mark.parametrize("length", [0, 3, 8])
def test_every_request_gets_the_tokens_of_its_text_once(length: int) -> None:
    """A request that was replaced has emitted as many tokens as its text has positions."""
    recordings = read_recordings()
    arm = RecordingArm(length)
    phase = Phase(("predictable", "prose_at_1"), 3, tokens_per_request=400, seed=1)
    result = Replay(TWIN, recordings, arm).run(phase)
    assert result.tokens == arm.tokens.total() >= 1200
    assert len(arm.ended) > 3
    for serial in arm.ended:
        assert arm.tokens[serial] == recordings.num_positions[arm.texts[serial]]


def test_a_policy_sees_the_samples_of_an_engine() -> None:
    """Two requests of each class; drafts of 4 with 2 accepted; texts of 6 end in the second step,
    which therefore judges nothing."""
    policy = ScriptedPolicy(4)
    arm = GovernedArm(policy, TWIN, MeasuredNoise(0))
    phase = Phase(("code", "code_at_1"), 4, tokens_per_request=6, seed=0)
    Replay(TWIN, accepting(2, num_positions=6), arm).run(phase)
    first, second = policy.samples
    assert policy.loads[0].classes == {"greedy": 2, "sampled": 2}
    assert (first.drafted, first.accepted) == ((4, 4, 4, 4), (2, 2, 2, 2))
    assert first.judged == ("0", "1", "2", "3")
    assert first.classes == ("greedy", "sampled", "greedy", "sampled")
    assert first.is_clean
    assert first.duration_s == pytest.approx(TWIN.step_s(4, 16, 4), rel=0.8)
    assert (second.drafted, second.num_ended, second.verified_draft_tokens) == ((), 4, 16)


def test_drafting_after_a_rest_costs_the_missed_tokens() -> None:
    """Three steps at 0 miss 3 tokens of each request; the fourth catches up 12 and is not clean."""
    policy = ScriptedPolicy(0, 0, 0, 4)
    arm = GovernedArm(policy, TWIN, MeasuredNoise(0))
    result = Replay(TWIN, accepting(2), arm).run(Phase(("code",), 4, 6, seed=0))
    assert [sample.catches_up for sample in policy.samples] == [False, False, False, True]
    assert [sample.is_clean for sample in policy.samples] == [True, True, True, False]
    caught_up = TWIN.step_s(4, 16, 4, catch_up_tokens=12)
    assert result.seconds == pytest.approx(3 * TWIN.step_s(4, 0, 0) + caught_up)


class EarlyPolicy(ScriptedPolicy):
    """Drafts up to 4, ends early by the rule, and has one token of each request verified."""

    def __init__(self, least_survival: float) -> None:
        super().__init__(4)
        self._rule = DraftRule({"greedy": (0.0, 1.0)}, least_survival, (0.0,) * 7)
        self.shapes: list[tuple[int, ...]] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        return replace(super().plan(load), rule=self._rule)

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int]:
        assert limits == [confidences.shape[1]] * len(classes)
        self.shapes.append(confidences.shape)
        return [1] * len(classes)


@pytest.mark.parametrize(("least_survival", "num_passes"), [(0.01, 4), (0.2, 2)])
def test_a_policy_ends_drafts_and_chooses_widths(least_survival: float, num_passes: int) -> None:
    """Confidences of 0.5 survive 0.5, 0.25, 0.14 forecast for the third: 0.2 ends after the
    second."""
    gpu = build_machine("7b-h200")
    policy = EarlyPolicy(least_survival)
    arm = GovernedArm(policy, gpu, MeasuredNoise(0), mode="early")
    result = Replay(gpu, accepting(2), arm).run(Phase(("code",), 2, 2, seed=0))
    (sample,) = policy.samples
    assert policy.shapes == [(2, num_passes)]
    assert (sample.drafted, sample.accepted, sample.draft_length) == ((1, 1), (1, 1), num_passes)
    assert sample.confidences == ((0.5,), (0.5,))
    assert result.seconds == pytest.approx(gpu.step_s(2, 2, num_passes))


@pytest.mark.parametrize("mode", DRAFTING_MODES)
def test_a_mode_is_what_the_load_offers(mode: DraftingMode) -> None:
    policy = ScriptedPolicy(2)
    arm = GovernedArm(policy, TWIN, MeasuredNoise(0), mode=mode, shows_classes=False)
    Replay(TWIN, accepting(2), arm).run(Phase(("code",), 2, 2, seed=0))
    (load,), (sample,) = policy.loads, policy.samples
    assert load.reports_confidences == (mode == "early")
    assert (load.classes, sample.classes) == ({}, ())
    assert sample.confidences == (() if mode == "lengths" else ((0.5, 0.5),) * 2)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("goodput", PolicyVariant("goodput", "early")),
        ("goodput:lengths", PolicyVariant("goodput", "lengths")),
        ("latency:lengths:no-table", PolicyVariant("latency", "lengths", has_table=False)),
        ("goodput:no-classes", PolicyVariant("goodput", "early", shows_classes=False)),
        (
            "goodput:verify+20:draft-10:cells5",
            PolicyVariant("goodput", "early", verify_error=0.2, draft_error=-0.1, cell_noise=0.05),
        ),
    ],
)
def test_words_of_an_arm_change_what_its_policy_sees(name: str, variant: PolicyVariant) -> None:
    assert PolicyVariant.parse(name, TWIN) == variant


def test_an_unknown_word_of_an_arm_is_refused() -> None:
    with pytest.raises(ValueError, match="arm 'goodput:fast' has the word 'fast'"):
        build_arm("goodput:fast", TWIN, 0)


def test_equal_seeds_give_equal_results() -> None:
    recordings = read_recordings()
    phase = Phase(("code", "prose_at_1"), 4, 60, seed=3)
    results = [Replay(TWIN, recordings, build_arm("goodput", TWIN, 3)).run(phase) for _ in "ab"]
    assert results[0] == results[1]


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(ValueError, match="policy is 'K=9'"):
        build_arm("K=9", TWIN, 0)


def test_confidences_of_a_batch_are_those_of_its_positions() -> None:
    recordings = read_recordings()
    texts = recordings.evaluated_texts("code")[:2]
    batch = Batch(
        recordings, texts, np.array([5, 7]), serials=np.arange(2), missed=np.zeros(2, np.int64)
    )
    assert batch.top_logits.tolist() == [
        recordings.top_logits[texts[0], 5].tolist(),
        recordings.top_logits[texts[1], 7].tolist(),
    ]
