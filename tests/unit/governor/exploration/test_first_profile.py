"""The first steps: each length until its duration is steady."""

from __future__ import annotations

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.exploration.first_profile import FirstProfile
from paceline.governor.values import EngineLoad, StepSample

LOAD = EngineLoad(
    num_requests=1, context_tokens=100, prefill_tokens=0, num_waiting=0, max_draft_length=8
)


def steady(length: int, duration_s: float, **changes: object) -> StepSample:
    fields = {"draft_length": length, "requested_draft_length": length, "duration_s": duration_s}
    return ordinary_sample(**{**fields, **changes})  # type: ignore[arg-type]


def lengths_used(profile: FirstProfile, *samples: StepSample) -> list[int | None]:
    """The length after every sample."""
    used = [profile.next_length(LOAD)]
    for sample in samples:
        profile.observe(sample)
        used.append(profile.next_length(LOAD))
    return used


def test_a_length_ends_when_two_steps_took_the_same_time() -> None:
    """A fifth more or less is the same."""
    used = lengths_used(
        FirstProfile([4, 0]), steady(4, 0.060), steady(4, 0.045), steady(4, 0.024),
        steady(4, 0.028), steady(0, 0.010), steady(0, 0.010),
    )  # fmt: skip
    assert used == [4, 4, 4, 4, 0, 0, None]


def test_steps_that_say_nothing_do_not_count() -> None:
    nothing = [
        steady(4, 0.02, requested_draft_length=0),
        steady(4, 0.02, is_clean=False),
        steady(4, 0.02, prefill_tokens=5),
        steady(3, 0.02),
    ]
    assert lengths_used(FirstProfile([4]), steady(4, 0.02), *nothing) == [4] * 6


def test_a_length_is_used_for_seven_steps_at_most() -> None:
    profile = FirstProfile([4, 0])
    assert [profile.next_length(LOAD) for _ in range(15)] == [4] * 7 + [0] * 7 + [None]


def test_no_lengths_is_no_profile() -> None:
    profile = FirstProfile(())
    profile.observe(steady(4, 0.02))
    assert profile.next_length(LOAD) is None
