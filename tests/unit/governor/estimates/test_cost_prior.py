"""What is believed of a machine after its first step, as proportions of that step's time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import StepSample

UNIT_S = 0.1
ONE_REQUEST_S = 0.0975
"""0.95 for the step, 0.005 for its request and 0.02 for its token, in units of 0.1 s."""


def undrafted(duration_s: float = ONE_REQUEST_S, **changes: int) -> StepSample:
    """A step of one request without context."""
    step = ordinary_sample(
        num_requests=1,
        requested_draft_length=0,
        drafted=(),
        accepted=(),
        verified_draft_tokens=0,
        draft_length=0,
        context_tokens=0,
        duration_s=duration_s,
    )
    return replace(step, **changes)


@pytest.fixture
def model() -> CostModel:
    """Has seen one step of one request, which took 97.5 ms."""
    found = CostModel()
    found.observe(undrafted())
    return found


@pytest.mark.parametrize(
    ("work", "units"),
    [
        ((1, 0, 0, 0), 0.0),
        ((11, 0, 0, 0), 10 * (0.005 + 0.02)),
        ((96, 0, 0, 0), 95 * (0.005 + 0.02)),
        ((500, 0, 0, 0), 499 * (0.005 + 0.02)),  # no bend is expected
        ((1, 0, 2000, 0), 2 * 0.005),
        ((1, 1, 0, 0), 0.02 + 0.02),
        ((1, 4, 0, 0), 0.02 + 4 * 0.02),
        ((1, 0, 0, 1), 0.05 + 0.002),
        ((1, 0, 0, 3), 0.05 + 2 * 0.05 + 3 * 0.002),
        ((10, 0, 0, 2), 9 * (0.005 + 0.02) + 0.05 + 0.05 + 20 * 0.002),
    ],
)
def test_what_more_work_takes(
    model: CostModel, work: tuple[int, int, int, int], units: float
) -> None:
    """Requests, draft tokens to verify, tokens of context, and the length drafted."""
    expected_s = ONE_REQUEST_S + UNIT_S * units
    assert model.predict_s(*work) == pytest.approx(expected_s, rel=1e-4)


def test_a_prompt_token_takes_the_time_of_another_token(model: CostModel) -> None:
    """60 tokens in every step, beside one that is output."""
    for _ in range(300):
        model.observe(undrafted(is_clean=False, prefill_tokens=60))
    [more_s] = model.predict_prompts_s(1, [0.0], [1.0])
    assert more_s == pytest.approx(60 * 0.02 * UNIT_S, rel=1e-3)


def test_the_chance_to_verify_anything_is_a_share_of_its_cost(model: CostModel) -> None:
    expected_s = ONE_REQUEST_S + UNIT_S * (0.25 * 0.02 + 2 * 0.02)
    assert model.predict_s(1, 2, 0, 0, verifying_fraction=0.25) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("factor", "lowers"), [(1.2, False), (0.97, False), (0.95, True), (0.5, True)]
)
def test_a_quicker_step_of_no_less_work_lowers_the_proportions(
    model: CostModel, factor: float, lowers: bool
) -> None:
    """The geometric mean of both steps must be 2 % below the first: 0.985 is not, 0.975 is. A draft
    pass, of which nothing else is known, is 0.052 of the step."""
    before_s = model.predict_s(1, 0, 0, 2) - model.predict_s(1, 0, 0, 1)
    model.observe(undrafted(factor * ONE_REQUEST_S))
    after_s = model.predict_s(1, 0, 0, 2) - model.predict_s(1, 0, 0, 1)
    assert (after_s < 0.999 * before_s) is lowers


def test_steps_with_prompts_are_passed_over_until_eight_have_come() -> None:
    """The ninth is taken, prompt or not."""
    model = CostModel()
    for number in range(9):
        assert not model.is_ready, number
        model.observe(undrafted(prefill_tokens=60))
    assert model.is_ready


@pytest.mark.parametrize(
    "changes", [{"is_clean": False}, {"duration_s": None}, {"duration_s": 0.0}]
)
def test_a_step_without_a_time_of_its_own_teaches_nothing(changes: dict[str, object]) -> None:
    model = CostModel()
    model.observe(replace(undrafted(), **changes))  # type: ignore[arg-type]
    model.observe(undrafted(num_requests=0))
    assert not model.is_ready


@pytest.mark.parametrize(("prefill_tokens", "is_measured"), [(7, True), (8, False)])
def test_a_step_beside_few_prompt_tokens_counts_where_most_steps_have_some(
    prefill_tokens: int, is_measured: bool
) -> None:
    """One request and no drafts: up to 2^3 - 1 tokens. Alone, only steps without prompts count."""
    model = CostModel()
    for _ in range(9):
        model.observe(undrafted(prefill_tokens=prefill_tokens))
    assert model.prefills.fraction == 1.0
    assert model.is_measured(1, 0) is is_measured
    for _ in range(200):
        model.observe(undrafted(is_clean=False))
    assert model.prefills.fraction < 0.5
    assert not model.is_measured(1, 0)


def test_sizes_differ_by_powers_of_two(model: CostModel) -> None:
    model.observe(undrafted(num_requests=5, draft_length=2))
    measured = [(n, k) for n in range(1, 10) for k in range(4) if model.is_measured(n, k)]
    assert measured == [(1, 0), (4, 2), (5, 2), (6, 2), (7, 2)]
