"""The losses by value, worked out for two distributions over three tokens."""

from __future__ import annotations

import math

import pytest
import torch

from paceline.foundation.distillation.losses import forward_kl, total_variation

TARGET = torch.tensor([[0.5, 0.3, 0.2]]).log()
DRAFT = torch.tensor([[0.25, 0.25, 0.5]]).log()


def test_forward_kl_is_the_mean_log_ratio_under_the_target() -> None:
    expected = 0.5 * math.log(2) + 0.3 * math.log(1.2) + 0.2 * math.log(0.4)
    assert forward_kl(TARGET, DRAFT).tolist() == [pytest.approx(expected, abs=1e-6)]


def test_total_variation_is_one_minus_the_shared_mass() -> None:
    """The smaller of the two probabilities: 0.25 + 0.25 + 0.2."""
    assert total_variation(TARGET, DRAFT).tolist() == [pytest.approx(0.3, abs=1e-6)]


@pytest.mark.parametrize("loss", [forward_kl, total_variation])
def test_a_loss_is_zero_for_equal_distributions_and_moves_the_draft_only(
    loss: object,
) -> None:
    assert callable(loss)
    assert loss(TARGET, TARGET + 3).item() == pytest.approx(0.0, abs=1e-6)
    target, draft = TARGET.clone().requires_grad_(), DRAFT.clone().requires_grad_()
    loss(target, draft).sum().backward()
    assert target.grad is None
    assert draft.grad is not None
    assert draft.grad[0, 0] < 0 < draft.grad[0, 2]
