"""What the cost model learns while other work takes the machine's time, and after it."""

from __future__ import annotations

import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.cost import CostModel


def undisturbed_s(num_requests: int, length: int) -> float:
    return 0.02 + 0.003 * num_requests * (length + 1) + 0.004 * length


def observe(
    cost: CostModel, num_requests: int, length: int, *, slowness: float = 1.0, steps: int = 1
) -> None:
    for _ in range(steps):
        cost.observe(
            ordinary_sample(
                num_requests=num_requests,
                draft_length=length,
                requested_draft_length=length,
                drafted=(),
                accepted=(),
                verified_draft_tokens=num_requests * length,
                duration_s=slowness * undisturbed_s(num_requests, length),
            )
        )


def ratio(cost: CostModel, num_requests: int, length: int) -> float:
    """A step at this length over one without drafts, predicted over true."""
    predicted = cost.predict_s(num_requests, num_requests * length, 900, length)
    predicted /= cost.predict_s(num_requests, 0, 900, 0)
    return predicted * undisturbed_s(num_requests, 0) / undisturbed_s(num_requests, length)


@pytest.fixture
def cost() -> CostModel:
    """At one request four lengths are well known."""
    model = CostModel()
    for _ in range(12):
        for length in (0, 1, 2, 4):
            observe(model, 1, length)
    return model


def test_a_shape_first_seen_in_a_disturbance_is_not_entered(cost: CostModel) -> None:
    observe(cost, 1, 2, slowness=4.0, steps=8)
    observe(cost, 1, 8, slowness=4.0, steps=3)
    assert not cost.is_measured(1, 8)
    observe(cost, 1, 2, steps=2)
    observe(cost, 1, 8, steps=3)
    assert ratio(cost, 1, 8) == pytest.approx(1.0, abs=0.1)


def test_what_is_in_use_stays_in_proportion_after_many_disturbances(cost: CostModel) -> None:
    for _ in range(20):
        observe(cost, 1, 2, slowness=4.0, steps=9)
        observe(cost, 1, 2, steps=9)
    assert ratio(cost, 1, 2) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("slowness", [1.0, 2.0], ids=["over", "lasting"])
def test_another_load_is_learned_though_it_begins_in_a_disturbance(
    cost: CostModel, slowness: float
) -> None:
    """What 48 requests cost is several times what was expected, at any speed."""
    observe(cost, 1, 2, slowness=4.0, steps=6)
    for _ in range(12):
        for length in (0, 1, 2, 4):
            observe(cost, 48, length, slowness=slowness)
    assert all(cost.is_measured(48, length) for length in (0, 1, 2, 4))
    for length in (1, 2, 4):
        assert ratio(cost, 48, length) == pytest.approx(1.0, abs=0.15)
