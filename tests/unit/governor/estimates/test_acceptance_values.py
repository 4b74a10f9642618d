"""The acceptance model's constants, by values worked out for single steps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from paceline.governor.estimates.acceptance import AcceptanceModel
from paceline.governor.values import StepSample

OFFER = 0.98
"""Of the prior."""


def step(requested: int, *verdicts: tuple[int, int]) -> StepSample:
    """A step of requests with (drafted, accepted)."""
    drafted = tuple(number for number, _ in verdicts)
    return StepSample(
        num_requests=max(len(verdicts), 1),
        requested_draft_length=requested,
        drafted=drafted,
        accepted=tuple(number for _, number in verdicts),
        verified_draft_tokens=sum(drafted),
        draft_length=requested,
        prefill_tokens=0,
        context_tokens=0,
        duration_s=None,
        is_clean=False,
    )


def judged(model: AcceptanceModel) -> list[float]:
    """Verdicts on position 1 in each memory, the shortest first."""
    return [memory.judged[0] for memory in model._memories]


def test_before_the_first_sample_it_is_the_prior() -> None:
    model = AcceptanceModel(3)
    assert model.survival == pytest.approx([(OFFER * 0.6) ** end for end in (1, 2, 3)])
    assert model.offered == pytest.approx([OFFER**end for end in (1, 2, 3)])
    assert model.num_changes == 0


def test_a_step_counts_as_eight_verdicts_at_most() -> None:
    """Sixteen accepted: (1.2 + 8) / (2 + 8), and then (4 * before + 8) / (4 + 8) twice."""
    model = AcceptanceModel(1)
    model.observe(step(1, *[(1, 1)] * 16))
    longest = 9.2 / 10
    middle = (4 * longest + 8) / 12
    shortest = (4 * middle + 8) / 12
    offer = (1.96 + 8) / 10
    assert model.survival == pytest.approx([offer * (longest + middle + shortest) / 3])


def test_the_memories_hold_12_48_and_192_verdicts() -> None:
    """After eight more verdicts, e^-(8/12) of the first eight are left in the shortest one."""
    model = AcceptanceModel(1)
    for _ in range(2):
        model.observe(step(1, *[(1, 1)] * 8))
    assert judged(model) == pytest.approx([8 + 8 * math.exp(-8 / n) for n in (12, 48, 192)])


def test_offers_are_averaged_over_96_verdicts() -> None:
    """None of eight offered, then all of eight."""
    model = AcceptanceModel(1)
    model.observe(step(1, *[(0, 0)] * 8))
    model.observe(step(1, *[(1, 1)] * 8))
    assert model.offered == pytest.approx([(1.96 + 8) / (2 + 8 + 8 * math.exp(-8 / 96))])


def test_a_rest_fades_the_memories_down_to_their_floors() -> None:
    """1/e in 256 steps; 4, 12 and 12 verdicts are kept at least, less the last step's share."""
    model = AcceptanceModel(1)
    for _ in range(300):
        model.observe(step(1, *[(1, 1)] * 8))
    before = judged(model)
    for _ in range(64):
        model.observe(step(0))
    kept = math.exp(-64 / 256)
    assert judged(model)[2] == pytest.approx(kept * before[2])
    for _ in range(5000):
        model.observe(step(0))
    for count, floor in zip(judged(model), (4, 12, 12), strict=True):
        assert math.exp(-1 / 256) * floor <= count <= floor


def test_a_rest_from_the_start_forgets_nothing() -> None:
    model = AcceptanceModel(1)
    for _ in range(9):
        model.observe(step(0))
    assert model.survival == AcceptanceModel(1).survival


def test_one_standard_error_counts_two_more_verdicts() -> None:
    """0.6 of nothing: sqrt(0.6 * 0.4 / 2) more."""
    model = AcceptanceModel(1)
    upper = 0.6 + math.sqrt(0.12)
    assert model.optimistic_survival(1) == pytest.approx(OFFER * upper)


def test_the_standard_error_is_that_of_the_position_itself() -> None:
    """Position 2 has three verdicts, one of them accepted; position 1 has four."""
    model = AcceptanceModel(2)
    model.observe(step(2, (2, 0), (2, 1), (2, 1), (2, 2)))
    first, second = model.survival
    accept = second / first / (model.offered[1] / model.offered[0])
    upper = accept + math.sqrt(accept * (1.0 - accept) / (3.0 + 2.0))
    assert model.optimistic_survival(2) == pytest.approx(second * upper / accept)


def test_no_acceptance_is_believed_to_be_above_one() -> None:
    """One of one: 0.73 and more, and one standard error up is above 1."""
    model = AcceptanceModel(1)
    model.observe(step(1, (1, 1)))
    assert model.optimistic_survival(1) == pytest.approx(model.offered[0])


@pytest.mark.parametrize("pair", [(1, 0), (0, 2), (2, 1), (1, 3), (3, 3)])
def test_the_relative_error_follows_from_the_error_at_each_position(pair: tuple[int, int]) -> None:
    """By differences: log(tokens / tokens) for an acceptance that is slightly higher."""

    def log_ratio(accept: list[float]) -> float:
        survival = [math.prod(OFFER * one for one in accept[:end]) for end in (1, 2, 3)]
        tokens = [1.0 + sum(survival[:length]) for length in pair]
        return math.log(tokens[0] / tokens[1])

    variance = 0.0
    for position in range(3):
        higher = [0.6 + 1e-6 * (position == other) for other in range(3)]
        slope = (log_ratio(higher) - log_ratio([0.6] * 3)) / 1e-6
        variance += slope**2 * 0.6 * 0.4 / 2.0  # two verdicts
    assert AcceptanceModel(3).relative_error(*pair) == pytest.approx(math.sqrt(variance), abs=1e-5)


def test_drafts_longer_than_the_maximum_count_up_to_it() -> None:
    """Of 4 tokens 3 are accepted; the model has two positions."""
    longer, cut = AcceptanceModel(2), AcceptanceModel(2)
    longer.observe(step(4, (4, 3), (4, 1)))
    cut.observe(step(2, (2, 2), (2, 1)))
    assert longer.survival == cut.survival
    assert longer.offered == cut.offered


def test_drafts_of_three_hundred_tokens_are_counted() -> None:
    model = AcceptanceModel(300)
    model.observe(step(300, (300, 300), (300, 299)))
    assert model.survival[298] > model.survival[299] > 0.0


def test_a_model_without_positions_learns_nothing() -> None:
    model = AcceptanceModel(0)
    model.observe(step(0))
    model.observe(step(2, (2, 1)))
    assert model.survival == []


def test_a_request_of_a_higher_rate_weighs_less_unless_weights_are_off() -> None:
    """Of two requests one has all accepted; after it has been seen, its verdict weighs less."""
    learned = {}
    for uses_weights, model in (
        (True, AcceptanceModel(1)),
        (False, AcceptanceModel(1, uses_request_weights=False)),
    ):
        for _ in range(50):
            model.observe(replace(step(1, (1, 1), (1, 0)), judged=("fast", "slow")))
        learned[uses_weights] = model.survival[0]
    assert learned[False] == pytest.approx(0.5, abs=0.02)
    assert learned[True] < 0.4
