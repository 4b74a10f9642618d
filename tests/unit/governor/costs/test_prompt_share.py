"""Prompt tokens, their pieces, and prefilling requests, per output token."""

from __future__ import annotations

import pytest

from paceline.runtime.governor.contract.samples import ordinary_sample
from paceline.runtime.governor.costs.prompt_share import PromptShare


def test_pieces_are_counted_per_output_token() -> None:
    """Four requests with four tokens accepted yield eight; every other step has 40 of a prompt."""
    share = PromptShare()
    for _ in range(500):
        share.observe(ordinary_sample(prefill_tokens=40))
        share.observe(ordinary_sample())
    assert share.pieces_per_output == pytest.approx(1 / 16, rel=0.01)
    assert share.piece_tokens == pytest.approx(40.0)


def test_a_step_that_mostly_prefills_is_left_out() -> None:
    share = PromptShare()
    share.observe(ordinary_sample(prefill_tokens=8000, num_prefilling=3))
    assert share.piece_tokens == share.pieces_per_output == 0.0
    share.observe(ordinary_sample(prefill_tokens=60, num_prefilling=2))
    assert share.piece_tokens == 60.0
    assert share.pieces_per_output == pytest.approx(1 / 6)  # two that decode, and four accepted


def test_steps_without_output_have_no_share() -> None:
    share = PromptShare()
    share.observe(ordinary_sample(num_requests=0, drafted=(), accepted=(), verified_draft_tokens=0))
    assert share.piece_tokens == share.pieces_per_output == 0.0
    assert share.stretch(3.0) == 1.0


def test_the_share_follows_a_change() -> None:
    """Half of a change after 44 steps: (1 - 1/64)^44 = 0.5."""
    share = PromptShare()
    for _ in range(1000):
        share.observe(ordinary_sample(prefill_tokens=80))
    for _ in range(44):
        share.observe(ordinary_sample())
    assert share.pieces_per_output == pytest.approx(1 / 16, rel=0.01)


def test_requests_that_get_more_tokens_in_a_step_are_fewer_at_a_time() -> None:
    """One of four prefills, and three yield seven tokens in a step: 3 of 4 are decoding. At seven
    tokens per request and step, 4 / (1 + 7 * 1/7) = 2 of 4 would be, two thirds of as many."""
    share = PromptShare()
    for _ in range(50):
        share.observe(ordinary_sample(prefill_tokens=9, num_prefilling=1))
    assert share.stretch(7 / 3) == pytest.approx(1.0)
    assert share.stretch(7.0) == pytest.approx(1.5)
