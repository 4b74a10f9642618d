"""Acceptance of single tokens by value."""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.models.acceptance.positions import accept_tokens
from paceline.foundation.models.values import Sampling

TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]).log()
DRAFT = torch.tensor([[0.25, 0.25, 0.5], [0.25, 0.25, 0.5], [0.2, 0.2, 0.6]]).log()
TEXT = torch.tensor([0, 2, 2])


def test_sampled_drafts_are_accepted_by_the_ratio_of_the_probabilities() -> None:
    """Token 0 of the first row: 0.25 / 0.5. Token 2 of the second: the draft has more. Third row:
    0.6 / 0.8. The means: 0.25 + 0.25 + 0.2 and 0.1 + 0.1 + 0.6."""
    found = accept_tokens(TARGET, DRAFT, TEXT, Sampling(1.0), samples_drafts=True)
    assert found.realised == pytest.approx([0.5, 1.0, 0.75], abs=1e-6)
    assert found.expected == pytest.approx([0.7, 0.7, 0.8], abs=1e-6)


def test_the_temperature_sharpens_both_distributions() -> None:
    """Squares at temperature 0.5: (25, 9, 4) / 38 and (1, 1, 4) / 6."""
    found = accept_tokens(TARGET[:1], DRAFT[:1], TEXT[:1], Sampling(0.5), samples_drafts=True)
    assert found.expected == pytest.approx([1 / 6 + 1 / 6 + 4 / 38], abs=1e-6)


def test_top_p_restricts_the_target_and_not_the_draft() -> None:
    """Only token 0 of the target is left; the draft gives it 0.25."""
    sampling = Sampling(1.0, top_p=0.4)
    found = accept_tokens(TARGET[:1], DRAFT[:1], TEXT[:1], sampling, samples_drafts=True)
    assert found.expected == pytest.approx([0.25], abs=1e-6)
    assert found.realised == pytest.approx([0.25], abs=1e-6)


def test_greedy_drafts_of_a_sampled_request_are_accepted_with_the_target_probability() -> None:
    found = accept_tokens(TARGET, DRAFT, TEXT, Sampling(1.0), samples_drafts=False)
    assert found.realised == [0, 1, 1]
    assert found.expected == pytest.approx([0.2, 0.2, 0.8], abs=1e-6)


def test_a_greedy_request_accepts_its_own_tokens() -> None:
    found = accept_tokens(TARGET, DRAFT, TEXT, Sampling(0.0), samples_drafts=True)
    assert found.realised == found.expected == [0, 1, 1]
