"""The cost of all draft lengths at once equals the cost of each one."""

from __future__ import annotations

import pytest

from paceline.governor.estimates.cost import CostModel
from paceline.governor.values import StepSample


def step(n: int, verified: int, length: int, seconds: float, context: int = 0) -> StepSample:
    return StepSample(
        num_requests=n,
        requested_draft_length=length,
        drafted=(),
        accepted=(),
        verified_draft_tokens=verified,
        draft_length=length,
        prefill_tokens=0,
        context_tokens=context,
        duration_s=seconds,
        is_clean=True,
    )


def true_s(n: int, verified: int, length: int, context: int = 0) -> float:
    """10 ms; 3 ms to verify anything; 20 microseconds a token; 1 ms a draft pass."""
    tokens_s = 2e-5 * (n + verified) + 1e-5 * max(n + verified - 160, 0)
    return 0.010 + 0.003 * (verified > 0) + tokens_s + 0.001 * length + 2e-7 * context


@pytest.fixture(scope="module")
def model() -> CostModel:
    """Has seen 1 to 512 requests at lengths 0 to 4, some of whose drafters offered nothing."""
    model = CostModel()
    for turn in range(40):
        for n in (1, 8, 64, 512):
            for length in (0, 1, 2, 4):
                verified = n * length * (turn % 3 > 0)
                context = 1000 * (turn % 5)
                seconds = true_s(n, verified, length, context)
                model.observe(step(n, verified, length, seconds, context))
    return model


@pytest.mark.parametrize("num_requests", [1, 8, 40, 100, 200, 300, 512])
@pytest.mark.parametrize("fraction", [0.0, 0.4, 1.0])
def test_each_length_costs_what_it_costs_alone(
    model: CostModel, num_requests: int, fraction: float
) -> None:
    drafts = [num_requests * offered for offered in (0.0, 0.9, 1.7, 2.4, 3.0)]
    found = model.predict_lengths_s(num_requests, drafts, 2500, verifying_fraction=fraction)
    alone = [
        model.predict_s(num_requests, num, 2500, length, verifying_fraction=fraction * (length > 0))
        for length, num in enumerate(drafts)
    ]
    assert found == pytest.approx(alone, rel=1e-9)


def test_verifying_anything_is_part_of_every_length_but_0(model: CostModel) -> None:
    drafts = [0.0, 8.0, 16.0]
    never, always = (
        model.predict_lengths_s(8, drafts, 0, verifying_fraction=fraction)
        for fraction in (0.0, 1.0)
    )
    more = [one - other for one, other in zip(always, never, strict=True)]
    assert more == pytest.approx([0.0, 0.003, 0.003], rel=0.1, abs=1e-9)


def test_the_model_has_learned_the_truth(model: CostModel) -> None:
    for n, length in ((1, 0), (8, 2), (64, 4), (512, 1)):
        expected = true_s(n, n * length, length)
        assert model.predict_s(n, n * length, 0, length) == pytest.approx(expected, rel=0.05)


def test_before_the_first_clean_step_every_length_takes_some_time() -> None:
    """So that a rate can be computed; and nothing is ready."""
    model = CostModel()
    assert not model.is_ready
    found = model.predict_lengths_s(4, [0.0, 4.0], 0, verifying_fraction=1.0)
    assert all(0.0 < seconds < 1e-6 for seconds in found)
