"""Prompt tokens per output token."""

from __future__ import annotations

import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.costs.prompt_share import PromptShare


def test_the_share_is_prompt_tokens_over_output_tokens() -> None:
    """Four requests with four tokens accepted yield eight; 40 prompt tokens came along."""
    share = PromptShare()
    for _ in range(5):
        share.observe(ordinary_sample(prefill_tokens=40))
        assert share.per_output == pytest.approx(5.0)


def test_a_step_that_mostly_prefills_is_left_out() -> None:
    share = PromptShare()
    share.observe(ordinary_sample(prefill_tokens=8000, num_prefilling=3))
    assert share.per_output == 0.0
    share.observe(ordinary_sample(prefill_tokens=60, num_prefilling=2))
    assert share.per_output == pytest.approx(10.0)  # two that decode, and four accepted


def test_steps_without_output_have_no_share() -> None:
    share = PromptShare()
    share.observe(ordinary_sample(num_requests=0, drafted=(), accepted=(), verified_draft_tokens=0))
    assert share.per_output == 0.0


def test_the_share_follows_a_change() -> None:
    """Half of a change after 44 steps: (1 - 1/64)^44 = 0.5."""
    share = PromptShare()
    for _ in range(1000):
        share.observe(ordinary_sample(prefill_tokens=80))
    for _ in range(44):
        share.observe(ordinary_sample())
    assert share.per_output == pytest.approx(5.0, rel=0.01)
