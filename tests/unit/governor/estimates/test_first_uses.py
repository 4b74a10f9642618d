"""Which samples say nothing about the cost, because they are the first of their size."""

from __future__ import annotations

from dataclasses import replace

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.first_uses import FirstUses
from paceline.governor.values import StepSample


def sample(num_requests: int, length: int = 3) -> StepSample:
    return ordinary_sample(
        num_requests=num_requests,
        draft_length=length,
        requested_draft_length=length,
        drafted=(),
        accepted=(),
        verified_draft_tokens=num_requests * length,
    )


def counts(uses: FirstUses, *samples: StepSample) -> list[bool]:
    """Whether each sample keeps its duration; everything else stays as it is."""
    passed = [uses.without_cost(one) for one in samples]
    assert [replace(one, is_clean=True) for one in passed] == list(samples)
    return [one.is_clean for one in passed]


def test_the_first_step_of_a_size_does_not_count() -> None:
    uses = FirstUses()
    assert counts(uses, *[sample(4)] * 3) == [False, True, True]
    assert counts(uses, *[sample(4, length=1)] * 3) == [False, True, True]


def test_where_no_size_repeats_two_of_about_one_size_are_left_out() -> None:
    sizes = [sample(num_requests, length=1) for num_requests in range(32, 48)]
    assert counts(FirstUses(), *sizes) == [False] * 2 + [True] * 14


def test_where_a_few_of_about_that_size_are_known_each_counts() -> None:
    uses = FirstUses()
    assert counts(uses, *[sample(32, length=1)] * 5, sample(33, length=1)) == [False] + [True] * 5
    uses = FirstUses()
    assert counts(uses, *[sample(32, length=1)] * 4, sample(33, length=1))[-1] is False


def test_samples_that_say_nothing_about_the_cost_anyway_are_passed_on() -> None:
    uses = FirstUses()
    unclean, mixed = replace(sample(4), is_clean=False), replace(sample(4), prefill_tokens=9)
    assert uses.without_cost(unclean) is unclean
    assert uses.without_cost(mixed) is mixed
    assert counts(uses, sample(4), sample(4)) == [False, True]
