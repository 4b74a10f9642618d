"""How many prompt tokens come along with how many output tokens."""

from __future__ import annotations

import math

import pytest

from paceline.governor.contract.samples import ordinary_sample
from paceline.governor.estimates.prefill_mix import PrefillMix


def mix_of(*steps: tuple[int, int], num_requests: int = 4) -> PrefillMix:
    """Steps of four requests, each with (prompt tokens, requests prefilling) and nothing accepted:
    every decoding request gets one token."""
    mix = PrefillMix()
    for prompt, num_prefilling in steps:
        mix.observe(
            ordinary_sample(
                num_requests=num_requests,
                prefill_tokens=prompt,
                num_prefilling=num_prefilling,
                drafted=(),
                accepted=(),
            )
        )
    return mix


def test_without_prompts_there_are_none_to_come() -> None:
    assert mix_of(*[(0, 0)] * 9).fraction == 0.0


def test_prompts_come_in_proportion_to_the_output() -> None:
    """Every other step has 60 prompt tokens beside 4 output tokens: 7.5 per output token; and
    -log(1 - 1/2) pieces beside 4."""
    mix = mix_of(*[(60, 0), (0, 0)] * 500)
    assert mix.fraction == pytest.approx(0.5, abs=0.01)
    assert mix.tokens_per_output == pytest.approx(7.5, rel=0.02)
    assert mix.pieces_per_output == pytest.approx(math.log(2.0) / 4, rel=0.03)


def test_the_number_of_pieces_is_bounded() -> None:
    """Prompt tokens in each step: four pieces per step are assumed, and none of infinity."""
    mix = mix_of(*[(100, 0)] * 300)
    assert mix.tokens_per_output == pytest.approx(25.0)
    assert mix.pieces_per_output == pytest.approx(-math.log(0.02) / 4)


def test_longer_steps_leave_fewer_requests_decoding() -> None:
    """Of 4 requests 1 is prefilling while 3 decode with a token each: 1/3 per output token. With
    three tokens per step, as many are prefilling as decoding: 2 of 4 instead of 3."""
    mix = mix_of(*[(16, 1)] * 300)
    assert mix.stretch(1.0) == pytest.approx(1.0)
    assert mix.stretch(3.0) == pytest.approx(3.0 / 2.0)


def test_a_burst_of_prompts_is_left_out() -> None:
    """Prompts of 3 of 4 requests at once: their answers come later."""
    assert mix_of(*[(0, 0)] * 20, *[(3000, 3)] * 9).fraction == 0.0


def test_prompts_long_past_are_forgotten() -> None:
    mix = mix_of(*[(60, 1)] * 50, *[(0, 0)] * 2000)
    assert mix.fraction == 0.0
    assert math.isfinite(mix.stretch(2.0))


def test_before_the_first_step_there_are_no_prompts() -> None:
    mix = PrefillMix()
    assert (mix.fraction, mix.pieces_per_output, mix.tokens_per_output) == (0.0, 0.0, 0.0)


def test_the_mean_is_that_of_the_last_64_steps() -> None:
    """Of prompts in every step, (63/64)^64 are left after 64 steps without."""
    mix = mix_of(*[(60, 0)] * 1000, *[(0, 0)] * 64)
    assert mix.fraction == pytest.approx((63 / 64) ** 64, rel=1e-3)


@pytest.mark.parametrize(("num_steps", "is_known"), [(690, True), (715, False)])
def test_prompts_are_forgotten_at_a_thousandth_of_a_step(num_steps: int, is_known: bool) -> None:
    """64 * (63/64)^n falls below 0.001 at n = 703."""
    mix = mix_of(*[(60, 0)] * 1000, *[(0, 0)] * num_steps)
    assert (mix.fraction > 0.0) is is_known


def test_a_step_with_as_many_prefilling_as_decoding_is_left_out() -> None:
    assert mix_of((3000, 2)).fraction == 0.0


def test_one_prompt_token_is_a_piece() -> None:
    assert mix_of((1, 0)).fraction == 1.0


def test_accepted_drafts_are_output() -> None:
    """Four requests with a token each and 4 accepted drafts: 16 prompt tokens beside 8."""
    mix = PrefillMix()
    mix.observe(ordinary_sample(prefill_tokens=16, accepted=(0, 1, 3, 0)))
    assert mix.tokens_per_output == 2.0
