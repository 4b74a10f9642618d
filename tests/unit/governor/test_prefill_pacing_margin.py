"""The margin of a pacer follows late steps, so that few are late in the long run."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from paceline.runtime.governor.prefill_pacing import PrefillPacer
from unit.governor.pacers import DECODE_S, TOKEN_S, late, pacer_after_decodes, ready, room


@pytest.mark.parametrize(("num_tokens", "is_counted"), [(0, False), (100, True)])
def test_with_a_ratio_only_steps_with_prompts_raise_the_margin(
    num_tokens: int, is_counted: bool
) -> None:
    """A decode of 300 ms beside none: prompts are not to blame, and would pay for minutes."""
    pacer = ready(0.200, ratio=3.0)
    margin = pacer._margin
    pacer._adapt_margin(0.3, num_tokens)
    assert (pacer._margin > margin) == is_counted


def test_with_a_ratio_lateness_of_slow_decodes_raises_no_margin() -> None:
    """3 times 60 ms are more than 200 over 1.3: the ratio bounds the step, not the objective."""
    pacer = ready(0.200, ratio=3.0)
    for _ in range(30):
        pacer.observe(0.060, 0, is_decoding=True)
    margin = pacer._margin
    late(pacer, 60, 0.5)
    assert pacer._margin == margin


@pytest.mark.parametrize(
    ("num_late", "growth"), [(1, 1.3), (2, 1.3 * 1.15), (3, 1.3 * 1.15 * 1.1), (60, 99.0)]
)
def test_each_late_step_raises_the_margin_up_to_four(num_late: int, growth: float) -> None:
    """Steps of 501 ms under an objective of 500 ms: by 30 %, by half of that, by a third of it."""
    pacer = pacer_after_decodes(0.500)
    margin = pacer._margin
    late(pacer, num_late, 0.501)
    expected = room(0.500, min(margin * growth, 4.0), 0.1 * DECODE_S)
    assert pacer.max_prefill_tokens() == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("num_in_time", "tokens", "growth"), [(0, 0, 1.05), (599, 100, 1.1), (2000, 100, 1.05)]
)
def test_a_late_step_counts_for_less_without_a_prompt_and_after_many_others(
    num_in_time: int, tokens: int, growth: float
) -> None:
    """Of 600 steps with prompts 3 should have been late; of 2,001 more than 6."""
    pacer = pacer_after_decodes(0.500)
    late(pacer, num_in_time, 0.400)
    margin = pacer._margin
    pacer._adapt_margin(0.501, tokens)
    assert pacer._margin == pytest.approx(margin * growth, rel=1e-6)


def test_under_a_ratio_the_margin_shrinks_while_steps_are_in_time() -> None:
    """Three times 50 ms are more than 200 over 1.69: else the margin would stay for good."""
    pacer = ready(0.200, ratio=3.0)
    late(pacer, 1, 0.501)
    for _ in range(30):
        pacer.observe(0.050, 0, is_decoding=True)
    margin = pacer._margin
    late(pacer, 100, 0.150)
    assert pacer._margin < 0.98 * margin


def test_two_hundred_steps_in_time_undo_a_late_one() -> None:
    """So one step in 200 is late in the long run. A step of exactly the objective is in time."""
    pacer = pacer_after_decodes(0.500)
    late(pacer, 10, 0.501)  # a late step raises the margin by its last share, a twentieth
    pacer._margin = 2.0
    before = pacer.max_prefill_tokens()
    late(pacer, 1, 0.501)
    assert pacer.max_prefill_tokens() != before
    late(pacer, 200, 0.500)
    assert pacer.max_prefill_tokens() == pytest.approx(before, abs=1)


def test_the_margin_never_promises_more_than_the_objective() -> None:
    """After thousands of steps in time it is 1."""
    pacer = pacer_after_decodes(0.500)
    for _ in range(2000):
        pacer.observe(DECODE_S, 0, is_decoding=True)
    assert pacer.max_prefill_tokens() == pytest.approx(room(0.5, 1.0, 0.1 * DECODE_S), abs=1)


def uneven(done: int) -> float:
    """Attention: the last tokens of a prompt take three times as long as the first."""
    return TOKEN_S * (1.0 + 2.0 * done / 2000)


@pytest.mark.parametrize("rests", [True, False], ids=["every second", "each"])
@pytest.mark.parametrize(
    ("token_s", "noise", "decodes_s"),
    [
        (lambda done: TOKEN_S, 0.0, (DECODE_S,)),
        (lambda done: TOKEN_S, 0.1, (DECODE_S,)),
        (uneven, 0.05, (DECODE_S,)),
        # Draft lengths come and go.
        (uneven, 0.05, (0.012, 0.012, 0.028, 0.028, 0.020, 0.028)),
    ],
    ids=["even", "noisy", "attention", "drafts"],
)
def test_ninety_nine_of_a_hundred_steps_keep_the_objective(
    token_s: Callable[[int], float], noise: float, decodes_s: tuple[float, ...], rests: bool
) -> None:
    """Prompts of 2,000 tokens, one after the other, in every second step or in each, beside
    decodes, over 8,000 steps.

    And pacing gives away little: half of the room there is goes to prompts at least, or 40 % where
    prompts are in each step and decodes differ.
    """
    draw = random.Random(1)
    pacer = PrefillPacer(0.060)
    num_late = done = computed = num_counted = 0
    for step in range(8000):
        decode_s = decodes_s[step % len(decodes_s)]
        most = pacer.max_prefill_tokens()
        tokens = min(most, 2000 - done)
        is_lean = most == 0
        tokens = 0 if step % 2 and rests else tokens
        duration_s = (decode_s + tokens * token_s(done)) * draw.lognormvariate(0.0, noise)
        pacer.observe(duration_s, tokens, is_decoding=True, is_lean=is_lean)
        done = 0 if done + tokens >= 2000 else done + tokens
        computed += tokens
        num_counted += step >= 800
        num_late += step >= 800 and duration_s > 0.060
    assert num_late <= 0.01 * num_counted
    room_s = 0.040 * (4000 if rests else 8000)
    assert computed * token_s(1000) >= (0.5 if rests or len(decodes_s) == 1 else 0.4) * room_s


def test_the_first_hundred_steps_are_rarely_late() -> None:
    """Prompts one after the other from a server's first step on, which takes 3 s; ten servers.

    With a margin of 1.15 that grows by a twentieth, 7 of 100 are late.
    """
    num_late = 0
    for seed in range(10):
        draw = random.Random(seed)
        pacer = PrefillPacer(0.200, ratio=3.0)
        done = 0
        for step in range(100):
            most = pacer.max_prefill_tokens()
            tokens = min(most or 1, 2000 - done)
            duration_s = (DECODE_S + tokens * uneven(done)) * draw.lognormvariate(0.0, 0.15)
            duration_s = 3.0 if step == 0 else duration_s
            num_late += step > 0 and duration_s > 0.200
            pacer.observe(duration_s, tokens, is_decoding=True, is_lean=most == 0)
            done = 0 if done + tokens >= 2000 else done + tokens
    assert num_late <= 30
