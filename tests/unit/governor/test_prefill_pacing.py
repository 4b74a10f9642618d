"""How many prompt tokens a step may compute, against step times that are known."""

from __future__ import annotations

import random
from collections.abc import Callable

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
