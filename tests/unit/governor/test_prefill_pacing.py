"""How many prompt tokens a step may compute, against step times that are known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from paceline.governor.prefill_pacing import PrefillPacer
from paceline.governor.values import StepSample

DECODE_S = 0.020
TOKEN_S = 0.0005


def sample(duration_s: float, *, num_requests: int = 4, prefill_tokens: int = 0) -> StepSample:
    return StepSample(
        num_requests=num_requests,
        requested_draft_length=0,
        drafted=(),
        accepted=(),
        verified_draft_tokens=0,
        draft_length=0,
        prefill_tokens=prefill_tokens,
        context_tokens=400,
        duration_s=duration_s,
        is_clean=prefill_tokens == 0,
    )


def ready(objective_s: float) -> PrefillPacer:
    """Has seen decode steps of 20 ms, and prefills of 0.5 ms a token beside them."""
    pacer = PrefillPacer(objective_s)
    for _ in range(40):
        pacer.observe(sample(DECODE_S))
        pacer.observe(sample(DECODE_S + 100 * TOKEN_S, prefill_tokens=100))
    return pacer


def test_what_is_left_of_the_objective_is_for_the_prompt() -> None:
    """60 ms over a margin of 1.15 are 52 ms: 32 for the prompt, 64 tokens of 0.5 ms."""
    assert ready(0.060).max_prefill_tokens(4, 0, 400, 0) == pytest.approx(64, abs=3)


def test_while_nobody_decodes_nothing_is_held_back() -> None:
    assert ready(0.060).max_prefill_tokens(0, 0, 0, 0) is None


def test_before_anything_is_known_nothing_is_held_back() -> None:
    assert PrefillPacer(0.060).max_prefill_tokens(4, 0, 400, 0) is None


def test_a_queue_drains_also_where_decoding_alone_is_too_slow() -> None:
    """10 ms between tokens is out of reach; prompts still continue, a few tokens at a time."""
    assert ready(0.010).max_prefill_tokens(4, 0, 400, 0) == 16


def test_an_objective_is_a_positive_time() -> None:
    with pytest.raises(ValueError, match=r"objective_s is 0.0; it must be positive"):
        PrefillPacer(0.0)


def decoding(objective_s: float) -> PrefillPacer:
    """Has seen decode steps of 20 ms only, and knows that four requests decode."""
    pacer = PrefillPacer(objective_s)
    for _ in range(40):
        pacer.observe(sample(DECODE_S))
    pacer.max_prefill_tokens(4, 0, 400, 0)
    return pacer


def room_tokens(objective_s: float, margin: float, token_s: float) -> int:
    return int((objective_s / margin - DECODE_S) / token_s)


def test_before_a_prefill_was_measured_a_prompt_token_is_taken_for_a_tenth_of_a_step() -> None:
    """120 ms over 1.15 leave 84 ms: 42 tokens of 2 ms."""
    assert decoding(0.120).max_prefill_tokens(4, 0, 400, 0) == pytest.approx(42, abs=1)


def test_a_fifth_of_what_a_prompt_token_costs_now_is_learned() -> None:
    """The first measurement counts fully: 0.5 ms. Then one of 1 ms makes it 0.6 ms."""
    pacer = decoding(0.120)
    pacer.observe(sample(DECODE_S + 100 * TOKEN_S, prefill_tokens=100))
    first = pacer.max_prefill_tokens(4, 0, 400, 0)
    pacer.observe(sample(DECODE_S + 50 * 0.001, prefill_tokens=50))
    second = pacer.max_prefill_tokens(4, 0, 400, 0)
    assert first == pytest.approx(room_tokens(0.120, 1.15, 0.0005), abs=3)
    assert second == pytest.approx(room_tokens(0.120, 1.15, 0.0006), abs=3)


def test_a_prefill_faster_than_decoding_alone_costs_nothing() -> None:
    """Noise: the estimate falls by a fifth, and not below 0."""
    pacer = decoding(0.120)
    pacer.observe(sample(DECODE_S + 100 * TOKEN_S, prefill_tokens=100))
    pacer.observe(sample(DECODE_S / 2, prefill_tokens=100))
    expected = room_tokens(0.120, 1.15, 0.0004)
    assert pacer.max_prefill_tokens(4, 0, 400, 0) == pytest.approx(expected, abs=4)


@pytest.mark.parametrize(("num_late", "margin"), [(1, 1.15 * 1.05), (3, 1.15 * 1.05**3), (60, 4.0)])
def test_each_late_step_raises_the_margin_up_to_four(num_late: int, margin: float) -> None:
    """Steps of 501 ms under an objective of 500 ms; the rest is at 2 ms a token."""
    pacer = decoding(0.500)
    for _ in range(num_late):
        pacer.observe(replace(sample(0.501), is_clean=False))
    expected = room_tokens(0.500, margin, 0.1 * DECODE_S)
    assert pacer.max_prefill_tokens(4, 0, 400, 0) == pytest.approx(expected, abs=1)


def test_two_hundred_steps_in_time_undo_a_late_one() -> None:
    """So one step in 200 is late in the long run. A step of exactly the objective is in time."""
    pacer = decoding(0.500)
    pacer.observe(replace(sample(0.501), is_clean=False))
    for _ in range(200):
        pacer.observe(replace(sample(0.500), is_clean=False))
    expected = room_tokens(0.500, 1.15, 0.1 * DECODE_S)
    assert pacer.max_prefill_tokens(4, 0, 400, 0) == pytest.approx(expected, abs=1)


def test_the_margin_never_promises_more_than_the_objective() -> None:
    """After thousands of steps in time it is 1."""
    pacer = decoding(0.500)
    for _ in range(2000):
        pacer.observe(sample(DECODE_S))
    expected = room_tokens(0.500, 1.0, 0.1 * DECODE_S)
    assert pacer.max_prefill_tokens(4, 0, 400, 0) == pytest.approx(expected, abs=1)


def test_one_decoding_request_waits_like_many_and_one_prompt_token_is_measured() -> None:
    pacer = PrefillPacer(0.120)
    for _ in range(40):
        pacer.observe(sample(DECODE_S, num_requests=1))
    first = pacer.max_prefill_tokens(1, 0, 400, 0)
    pacer.observe(replace(sample(0.121, num_requests=1), is_clean=False))
    assert first is not None
    assert (pacer.max_prefill_tokens(1, 0, 400, 0) or 0) < first - 1
    pacer.observe(sample(DECODE_S + 0.010, num_requests=1, prefill_tokens=1))
    # 10 ms for it, five times what was assumed: the room holds 8, and 16 is the least.
    assert pacer.max_prefill_tokens(1, 0, 400, 0) == 16


def test_steps_for_which_nobody_waits_do_not_count_as_late() -> None:
    pacer = decoding(0.500)
    before = pacer.max_prefill_tokens(4, 0, 400, 0)
    pacer.max_prefill_tokens(0, 0, 0, 0)
    for _ in range(20):
        pacer.observe(replace(sample(0.9), is_clean=False))
    assert pacer.max_prefill_tokens(4, 0, 400, 0) == before


@pytest.mark.parametrize("changes", [{"duration_s": None}, {"num_requests": 0}])
def test_a_step_without_a_time_or_without_requests_teaches_nothing(
    changes: dict[str, Any],
) -> None:
    pacer = decoding(0.120)
    before = pacer.max_prefill_tokens(4, 0, 400, 0)
    pacer.observe(replace(sample(9.0, prefill_tokens=100), **changes))
    assert pacer.max_prefill_tokens(4, 0, 400, 0) == before


@pytest.mark.parametrize(
    ("token_s", "noise"),
    [
        (lambda done: TOKEN_S, 0.0),
        (lambda done: TOKEN_S, 0.1),
        # Attention: the last tokens of a prompt take three times as long as the first.
        (lambda done: TOKEN_S * (1.0 + 2.0 * done / 2000), 0.05),
    ],
    ids=["even", "noisy", "attention"],
)
def test_ninety_nine_of_a_hundred_steps_keep_the_objective(
    token_s: Callable[[int], float], noise: float
) -> None:
    """Prompts of 2,000 tokens, one after the other, beside 4 decodes, over 4,000 steps.

    And pacing gives away little: half of the room there is goes to prompts at least.
    """
    draw = random.Random(1)
    pacer = PrefillPacer(0.060)
    late = done = computed = 0
    for step in range(4000):
        most = pacer.max_prefill_tokens(4, 0, 400, 0)
        tokens = 500 if most is None else min(most, 2000 - done)
        duration_s = (DECODE_S + tokens * token_s(done)) * draw.lognormvariate(0.0, noise)
        pacer.observe(sample(duration_s, prefill_tokens=tokens))
        pacer.observe(sample(DECODE_S * draw.lognormvariate(0.0, noise)))
        done = 0 if done + tokens >= 2000 else done + tokens
        computed += tokens
        late += step >= 400 and duration_s > 0.060
    assert late <= 0.01 * 2 * 3600
    room_s = 0.040 * 4000
    assert computed * token_s(1000) >= 0.5 * room_s
