"""The engine loop: closed forms on constant acceptance, and what arms and policies are shown."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.governor.recorded_drafts.arms import FixedLength, build_arm
from benchmarks.governor.recorded_drafts.governed import GovernedArm
from benchmarks.governor.recorded_drafts.machines import MeasuredNoise, build_machine
from benchmarks.governor.recorded_drafts.recordings import read_recordings
from benchmarks.governor.recorded_drafts.replay import Batch, Drafts, Phase, Replay, StepResult
from paceline.governor.values import DraftPlan, EngineLoad, StepSample
from unit.benchmarks.governor.recorded_drafts.constant_acceptance import accepting

TWIN = build_machine("cpu-twin")


class ScriptedPolicy:
    """Plans the lengths it was given, in turn, and keeps what it is shown."""

    def __init__(self, *lengths: int, replay_scoring_tokens: int = 0) -> None:
        self._lengths = lengths
        self._tokens = replay_scoring_tokens
        self.loads: list[EngineLoad] = []
        self.samples: list[StepSample] = []

    def plan(self, load: EngineLoad) -> DraftPlan:
        self.loads.append(load)
        length = self._lengths[(len(self.loads) - 1) % len(self._lengths)]
        return DraftPlan(length, "scripted", self._tokens, requests_first_tokens=True)

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


def test_the_average_of_accepted_lengths_settles_one_above_them() -> None:
    """It begins with 2 accepted, so with 3 tokens, and stays there."""
    phase = Phase(("code",), 4, tokens_per_request=60, seed=0)
    result = Replay(TWIN, accepting(2), build_arm("ema", TWIN, 0)).run(phase)
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


def test_replay_scores_come_with_the_next_sample_and_take_time() -> None:
    """Of one emitted token per request at most one token can be scored: accepted, as the text
    ends."""
    policy = ScriptedPolicy(0, replay_scoring_tokens=128)
    arm = GovernedArm(policy, TWIN, MeasuredNoise(0))
    result = Replay(TWIN, accepting(2), arm).run(Phase(("code",), 2, 2, seed=0))
    assert policy.samples[0].replay_scores is None
    scores = policy.samples[1].replay_scores
    assert scores is not None
    assert (scores.drafted, scores.accepted, scores.computed_tokens) == ((1, 1), (1, 1), 2)
    assert scores.judged == ("0", "1")
    assert result.seconds > 2 * TWIN.step_s(2, 0, 0)


def test_a_draft_model_that_runs_at_length_0_reports_first_tokens() -> None:
    policy = ScriptedPolicy(0)
    gpu = build_machine("7b-h200")
    arm = GovernedArm(policy, gpu, MeasuredNoise(0))
    Replay(gpu, accepting(2), arm).run(Phase(("code",), 2, 2, seed=0))
    assert policy.samples[0].first_token_verdicts == (1, 1)
    assert policy.samples[0].drafted == ()


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
