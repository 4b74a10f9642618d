"""The thresholds, memory and pauses of `threshold`, sample by sample."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.governor.policies.threshold import ThresholdPolicy
from paceline.runtime.governor.values import EngineLoad, StepSample

LOAD = EngineLoad(4, 100, 0, 0, 8)


def sample(drafted: int, accepted: int, requested: int = 4) -> StepSample:
    """One request with this draft; 0 drafted is none."""
    return StepSample(
        num_requests=1,
        requested_draft_length=requested,
        drafted=(drafted,) if drafted else (),
        accepted=(accepted,) if drafted else (),
        verified_draft_tokens=drafted,
        draft_length=requested,
        prefill_tokens=0,
        context_tokens=100,
        duration_s=0.02,
        is_clean=True,
    )


def length(policy: ThresholdPolicy) -> int:
    return policy.plan(LOAD).draft_length


@pytest.mark.parametrize(("maximum", "first"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_it_starts_at_half_of_the_maximum(maximum: int, first: int) -> None:
    assert length(ThresholdPolicy(maximum)) == first


def test_a_maximum_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_draft_length is 0; it must be at least 1"):
        ThresholdPolicy(0)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (76, 5),  # above 0.75 it grows
        (75, 4),  # at 0.75 and at 0.6 it holds
        (60, 4),
        (59, 3),  # below 0.6 it shrinks
        (40, 3),
        (39, 0),  # below 0.4 it stops
    ],
)
def test_the_accepted_fraction_decides(accepted: int, expected: int) -> None:
    policy = ThresholdPolicy(8)
    policy.observe(sample(100, accepted))
    assert length(policy) == expected


def test_a_decision_needs_thirty_two_drafted_tokens() -> None:
    """31 are too few; after a decision the count starts again."""
    policy = ThresholdPolicy(8)
    lengths = []
    for drafted in (31, 1, 31, 1):
        policy.observe(sample(drafted, drafted))
        lengths.append(length(policy))
    assert lengths == [4, 5, 5, 6]


def test_the_length_stays_between_one_and_the_maximum() -> None:
    policy = ThresholdPolicy(4)
    grown = []
    for _ in range(4):
        policy.observe(sample(32, 32))
        grown.append(length(policy))
    assert grown == [3, 4, 4, 4]
    policy = ThresholdPolicy(4)
    shrunk = []
    for _ in range(4):
        policy.observe(sample(32, 16))
        shrunk.append(length(policy))
    assert shrunk == [1, 1, 1, 1]


def test_the_average_remembers_sixty_four_tokens() -> None:
    """1.0 at first; then 64 tokens of which none is accepted halve it, and it shrinks."""
    policy = ThresholdPolicy(8)
    policy.observe(sample(32, 32))
    policy.observe(sample(64, 0))
    assert "average 0.50" in policy.plan(LOAD).reason
    assert length(policy) == 4


def test_a_step_without_drafts_changes_nothing() -> None:
    policy = ThresholdPolicy(8)
    assert policy.plan(LOAD).reason == "threshold: no average yet"
    policy.observe(sample(0, 0))
    assert policy.plan(LOAD).reason == "threshold: no average yet"


def test_the_ceiling_limits_it_and_switches_it_off() -> None:
    policy = ThresholdPolicy(8)
    assert policy.plan(replace(LOAD, max_draft_length=3)).draft_length == 3
    off = policy.plan(replace(LOAD, max_draft_length=0))
    assert (off.draft_length, off.reason) == (0, "off: the ceiling is 0")
    assert length(policy) == 4


def switched_off() -> ThresholdPolicy:
    """Off, and the drafts from before have been judged."""
    policy = ThresholdPolicy(8)
    policy.observe(sample(100, 0))
    policy.observe(sample(0, 0, requested=0))
    return policy


def run_until_probe(policy: ThresholdPolicy) -> int:
    """Steps at length 0 until the first one that drafts."""
    for step in range(2000):
        plan = policy.plan(LOAD)
        if plan.draft_length:
            assert plan.is_exploring
            return step
        assert not plan.is_exploring
        policy.observe(sample(0, 0, requested=0))
    raise AssertionError("no probe within 2,000 steps")


def finish_probe(policy: ThresholdPolicy, *verdicts: tuple[int, int]) -> None:
    """The other three steps of the probe, its (drafted, accepted), and the end."""
    rest = [policy.plan(LOAD).draft_length for _ in range(4)]
    assert rest == [1, 1, 1, 0]
    for drafted, accepted in verdicts:
        policy.observe(sample(drafted, accepted, requested=1))
    policy.observe(sample(0, 0, requested=0))


def test_failed_probes_double_the_pause_up_to_512_steps() -> None:
    """One step of the pause passes while the verdicts of the last probe are awaited."""
    policy = switched_off()
    pauses = [run_until_probe(policy)]
    for _ in range(6):
        finish_probe(policy, (8, 0))
        pauses.append(run_until_probe(policy) + 1)
    assert pauses == [32, 64, 128, 256, 512, 512, 512]


@pytest.mark.parametrize(("accepted", "expected"), [(6, 1), (5, 0)])
def test_a_probe_at_six_tenths_resumes_at_length_one(accepted: int, expected: int) -> None:
    """Its fraction is the new average, and a decision needs 32 new tokens."""
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (10, accepted))
    assert length(policy) == expected
    if expected:
        assert "average 0.60" in policy.plan(LOAD).reason
        policy.observe(sample(31, 31))
        assert length(policy) == 1


def test_two_verdicts_are_kept_for_the_next_probe() -> None:
    """Two accepted are too few; with one more, rejected, two of three resume drafting."""
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (2, 2))
    assert length(policy) == 0
    run_until_probe(policy)
    finish_probe(policy, (1, 0))
    assert length(policy) == 1


def test_three_verdicts_suffice_and_are_used_once() -> None:
    """None of three: off. The next probe, two of three, is judged by its own verdicts."""
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (3, 0))
    assert length(policy) == 0
    run_until_probe(policy)
    finish_probe(policy, (3, 2))
    assert length(policy) == 1


def test_switching_off_again_starts_with_a_short_pause() -> None:
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (8, 0))
    assert run_until_probe(policy) == 63
    finish_probe(policy, (8, 8))
    policy.observe(sample(100, 0))
    policy.observe(sample(100, 0))
    assert length(policy) == 0
    policy.observe(sample(0, 0, requested=0))
    assert run_until_probe(policy) == 31


def test_drafts_from_before_switching_off_are_no_probe() -> None:
    """Their verdicts come while it is off, all accepted."""
    policy = ThresholdPolicy(8)
    policy.observe(sample(100, 0))
    for _ in range(5):
        policy.observe(sample(4, 4))
    policy.observe(sample(0, 0, requested=0))
    assert run_until_probe(policy) == 32


def test_a_length_that_is_not_allowed_is_replaced_by_the_next_one() -> None:
    """Length 1 where the engine runs 0, 3 and 7: the next longer one, or 0 above the ceiling."""
    policy = ThresholdPolicy(3)
    assert policy.plan(replace(LOAD, allowed_lengths=(0, 3, 7))).draft_length == 3
    assert policy.plan(replace(LOAD, max_draft_length=2, allowed_lengths=(0, 3))).draft_length == 0


def test_a_probe_where_no_length_is_allowed_drafts_nothing() -> None:
    policy = switched_off()
    plans = [
        policy.plan(replace(LOAD, max_draft_length=2, allowed_lengths=(0, 3))) for _ in range(40)
    ]
    assert {plan.draft_length for plan in plans} == {0}


def test_drafts_that_were_not_requested_while_off_are_no_probe() -> None:
    policy = switched_off()
    policy.observe(sample(8, 8))
    policy.observe(sample(0, 0, requested=0))
    assert length(policy) == 0


def test_late_verdicts_from_before_switching_off_are_no_part_of_the_probe() -> None:
    """Drafting resumed and was switched off a second time; no sample arrived before the probe."""
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (8, 8))
    policy.observe(sample(200, 0))
    assert [length(policy) for _ in range(36)] == [0] * 32 + [1] * 4
    policy.observe(sample(8, 8))
    policy.observe(sample(0, 0, requested=0))
    assert length(policy) == 0


def test_a_sample_from_before_the_probe_does_not_end_it() -> None:
    """The samples of the four steps before it arrive after its last step was planned."""
    policy = switched_off()
    run_until_probe(policy)
    assert [length(policy) for _ in range(4)] == [1, 1, 1, 0]
    policy.observe(sample(0, 0, requested=0))
    policy.observe(sample(8, 8, requested=1))
    policy.observe(sample(0, 0, requested=0))
    assert length(policy) == 1


def test_verdicts_that_were_used_do_not_count_in_the_next_probe() -> None:
    """None of three, and then two of four, which is below 0.6."""
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (3, 0))
    run_until_probe(policy)
    finish_probe(policy, (4, 2))
    assert length(policy) == 0


def test_after_a_probe_a_decision_needs_thirty_two_new_tokens() -> None:
    policy = switched_off()
    run_until_probe(policy)
    finish_probe(policy, (10, 10))
    policy.observe(sample(31, 31))
    assert length(policy) == 1
    policy.observe(sample(1, 1))
    assert length(policy) == 2
