"""Fixed, off, schedule and threshold: the baselines, and the factory that names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.governor.policies.fixed import FixedPolicy
from paceline.runtime.governor.policies.schedule import SchedulePolicy, ScheduleRange
from paceline.runtime.governor.policies.threshold import ThresholdPolicy
from paceline.runtime.governor.values import DraftPlan, EngineLoad, StepSample
from paceline.runtime.policy_registry import create_policy, policy_names
from unit.governor.steady import SteadyEngine, hazard

HOPELESS = hazard(0.0)
LOAD = EngineLoad(
    num_requests=4, context_tokens=100, prefill_tokens=0, num_waiting=0, max_draft_length=8
)


def test_fixed_is_fixed_and_held_by_the_ceiling() -> None:
    """Length 5 under ceilings of 8 and 3."""
    policy = FixedPolicy(5)
    assert policy.plan(LOAD).draft_length == 5
    assert policy.plan(replace(LOAD, max_draft_length=3)).draft_length == 3


@pytest.mark.parametrize("length", [0, 1, 8])
def test_a_fixed_length_from_off_to_the_maximum_is_taken(length: int) -> None:
    policy = create_policy("fixed", max_draft_length=8, draft_length=length)
    assert policy.plan(LOAD).draft_length == length


def test_fixed_without_a_length_is_the_maximum() -> None:
    assert create_policy("fixed", max_draft_length=6).plan(LOAD).draft_length == 6


def test_the_reason_of_a_fixed_length_says_what_limits_it() -> None:
    """The ceiling is named where it lowers the length, not where it equals it."""
    reasons = [FixedPolicy(8).plan(replace(LOAD, max_draft_length=n)).reason for n in (8, 7)]
    assert "ceiling" not in reasons[0]
    assert "ceiling" in reasons[1]
    assert FixedPolicy(0).plan(LOAD).reason == "off"


def test_a_negative_length_is_refused_by_the_policy_itself() -> None:
    with pytest.raises(ValueError, match=r"draft_length is -1; it must be 0 \(off\) or more"):
        FixedPolicy(-1)


def test_off_is_a_fixed_length_of_zero() -> None:
    """The factory's off never drafts."""
    assert create_policy("off", max_draft_length=8).plan(LOAD) == DraftPlan(0, "off")


@pytest.mark.parametrize(
    ("num_requests", "length"), [(1, 5), (4, 5), (5, 2), (9, 2), (15, 2), (16, 0), (99, 0)]
)
def test_schedule_reads_its_table_as_vllm_does(num_requests: int, length: int) -> None:
    """Ranges 1-4, 5-8, 16-32: a gap and the tail carry the length before them on."""
    policy = SchedulePolicy([(5, 8, 2), (1, 4, 5), (16, 32, 0)])
    assert policy.plan(replace(LOAD, num_requests=num_requests)).draft_length == length


def test_a_range_may_hold_one_number_of_requests_and_turn_drafting_off() -> None:
    """Adjacent ranges of one request each, in any order."""
    policy = SchedulePolicy([(2, 2, 0), (1, 1, 3)])
    lengths = [policy.plan(replace(LOAD, num_requests=n)).draft_length for n in (0, 1, 2, 3)]
    assert lengths == [3, 3, 0, 0]


@pytest.mark.parametrize(
    ("ranges", "complaint"),
    [
        ([], "empty"),
        ([(2, 4, 1)], "must start at 1"),
        ([(1, 4, 1), (4, 8, 2)], "overlaps"),
        ([(3, 4, 1), (9, 9, 2)], "starts at 3 requests; the first range must start at 1"),
        ([(0, 4, 1)], r"range 0\.\.4 must satisfy 1 <= lowest <= highest"),
        ([(1, 4, -1)], "draft_length is -1"),
        ([(4, 1, 1)], "1 <= lowest <= highest"),
        ([(1, 4)], r"entry \[1, 4\] must be three whole numbers"),
        (["1-4"], "entry '1-4' must be three whole numbers"),
        ([(1, 4, 1.5)], "three whole numbers"),
    ],
)
def test_schedule_says_what_is_wrong(ranges: list[ScheduleRange], complaint: str) -> None:
    """Every malformed table is refused in words."""
    with pytest.raises(ValueError, match=complaint):
        SchedulePolicy(ranges)


def test_threshold_lengthens_on_easy_text_to_the_ceiling() -> None:
    """At 0.98 per position even eight tokens are accepted above 0.75 on average."""
    engine = SteadyEngine(ThresholdPolicy(8))
    assert engine.lengths(4, hazard(0.98), 200)[-1] == 8


def test_threshold_shortens_on_middling_text() -> None:
    """At 0.65 per position only length 1 keeps the fraction above 0.6."""
    engine = SteadyEngine(ThresholdPolicy(8))
    lengths = engine.lengths(4, hazard(0.65), 300)[-100:]
    assert max(lengths) <= 2
    assert min(lengths) >= 1


def test_threshold_goes_off_and_comes_back() -> None:
    """Hopeless text switches it off but for rare probes; easy text switches it on again."""
    engine = SteadyEngine(ThresholdPolicy(8))
    off = engine.lengths(4, hazard(0.05), 400)[-200:]
    assert off.count(0) >= 0.95 * len(off)
    assert engine.lengths(4, hazard(0.95), 700)[-1] > 0


@pytest.mark.parametrize("is_async", [False, True])
def test_threshold_doubles_its_pause_once_per_probe(is_async: bool) -> None:
    """Nothing accepted: pauses of 32, 64, 128 and 256 steps between probes of 4.

    The verdicts on drafts from before switching off end no probe, and each probe is judged once.
    """
    engine = SteadyEngine(ThresholdPolicy(8), is_async=is_async)
    _switch_off(engine)
    lengths = [0, *engine.lengths(1, HOPELESS, 31 + 4 + 64 + 4 + 128 + 4 + 256 + 4)]
    pauses = [32, 64, 128, 256]
    assert lengths == [length for n in pauses for length in [0] * n + [1] * 4]


@pytest.mark.parametrize("is_async", [False, True])
def test_threshold_stays_off_when_a_leftover_draft_is_accepted(is_async: bool) -> None:
    """The draft from before switching off is accepted, after it was off: no probe, so no return."""
    engine = SteadyEngine(ThresholdPolicy(8), is_async=is_async)
    _switch_off(engine)
    assert engine.lengths(1, hazard(1.0), 31) == [0] * 31


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("verdicts", "returns"),
    [((1, 1, 0, 0), False), ((1, 1, 0, 1), True), ((0, 1, 1, 1), True), ((0, 1, 0, 1), False)],
)
def test_threshold_judges_a_probe_by_all_its_verdicts(
    verdicts: tuple[int, ...], returns: bool, is_async: bool
) -> None:
    """Three of the four accepted switch on again, two of four do not, in whichever order."""
    engine = SteadyEngine(ThresholdPolicy(8), is_async=is_async)
    _switch_off(engine)
    assert engine.lengths(1, HOPELESS, 32)[-2:] == [0, 1]
    for accepted in verdicts:  # of each probe step, one step after it
        engine.run(1, hazard(float(accepted)), 1)
    lengths = engine.lengths(1, HOPELESS, 8)
    assert (lengths[-1] == 1) is returns


def _switch_off(engine: SteadyEngine) -> None:
    """Run hopeless text until the first step that drafts nothing."""
    for _ in range(400):
        if engine.lengths(1, HOPELESS, 1) == [0]:
            return
    raise AssertionError("the policy did not switch off within 400 steps")


def test_factory_knows_every_policy_by_name() -> None:
    """Each name builds something that plans within the ceiling."""
    for name in policy_names():
        policy = create_policy(name, max_draft_length=8, schedule=[(1, 64, 2)])
        assert 0 <= policy.plan(LOAD).draft_length <= 8


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "best"}, r"policy is 'best'; .* goodput, .*threshold"),
        ({"name": "schedule"}, "policy schedule needs the parameter schedule"),
        ({"name": "fixed", "draft_length": 9}, "draft_length is 9; it must be from 0 .off. to 8"),
        ({"name": "fixed", "draft_length": -1}, "draft_length is -1; it must be"),
    ],
)
def test_factory_says_what_is_allowed(arguments: dict[str, object], complaint: str) -> None:
    """Errors name what was given and what is allowed."""
    with pytest.raises(ValueError, match=complaint):
        create_policy(max_draft_length=8, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"drafted": (2,), "accepted": (3,)}, "each entry must be 0 to"),
        ({"drafted": (2, 1)}, "both need one per judged request"),
        ({"verified_draft_tokens": 1}, "at least the sum"),
        ({"context_tokens": -1}, "must not be negative"),
        ({"duration_s": float("nan")}, "must not be negative"),
    ],
)
def test_contradictory_samples_are_refused(change: dict[str, object], complaint: str) -> None:
    """A sample that cannot be true never reaches a policy."""
    sample = StepSample(
        num_requests=1,
        requested_draft_length=2,
        drafted=(2,),
        accepted=(1,),
        verified_draft_tokens=2,
        draft_length=2,
        prefill_tokens=0,
        context_tokens=0,
        duration_s=0.01,
        is_clean=True,
    )
    with pytest.raises(ValueError, match=complaint):
        replace(sample, **change)  # type: ignore[arg-type]
