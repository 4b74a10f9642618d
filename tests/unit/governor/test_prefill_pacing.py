"""How many prompt tokens a step may compute, against step times that are known."""

from __future__ import annotations

import pytest

from paceline.runtime.governor.prefill_pacing import PrefillPacer
from unit.governor.pacers import DECODE_S, TOKEN_S, pacer_after_decodes, ready, room


def test_what_is_left_of_the_objective_is_for_the_prompt() -> None:
    """60 ms over a margin of 1.3 are 46 ms: 26 for the prompt, 52 tokens of 0.5 ms."""
    assert ready(0.060).max_prefill_tokens() == pytest.approx(52, abs=2)


def test_the_first_three_steps_beside_decodes_are_lean() -> None:
    """Neither a prompt alone nor one beside decodes says what decodes take.

    An engine's first step takes 3 s; one is timed at 1 ms, as the process had paused before it.
    """
    pacer = PrefillPacer(0.060)
    pacer.observe(0.5, 1000, is_decoding=False)
    pacer.observe(0.5, 1000, is_decoding=True)
    for duration_s in (3.0, 0.020, 0.001):
        assert pacer.max_prefill_tokens() == 0
        pacer.observe(duration_s, 1, is_decoding=True, is_lean=True)
    assert pacer.max_prefill_tokens() > 0
    assert pacer._decode_s == 0.020
    assert pacer._margin <= 1.3


def test_after_a_step_with_prompts_in_half_the_time_of_decodes_these_are_timed_again() -> None:
    """Decodes were taken for 0.5 s, of which a prompt may take twice as much; they take 30 ms."""
    pacer = PrefillPacer(0.200, ratio=3.0)
    for _ in range(3):
        pacer.observe(0.5, 1, is_decoding=True, is_lean=True)
    pacer.observe(0.260, 40, is_decoding=True)
    assert pacer.max_prefill_tokens() != 0
    pacer.observe(0.240, 40, is_decoding=True)
    assert pacer.max_prefill_tokens() == 0
    pacer.observe(0.030, 1, is_decoding=True, is_lean=True)
    assert pacer.max_prefill_tokens() != 0
    assert pacer._decode_s == pytest.approx(0.030 + 0.470 * 0.8**5, rel=0.1)


@pytest.mark.parametrize("at", ["at the start", "later"])
def test_a_step_that_is_timed_too_short_costs_little(at: str) -> None:
    """The process paused for 0.5 s; the step that ran meanwhile is timed at 1 ms."""
    pacer = PrefillPacer(0.200, ratio=3.0)
    durations = [0.1, 0.5, 0.001] if at == "at the start" else [0.1] * 3
    for duration_s in durations:
        pacer.observe(duration_s, 1, is_decoding=True, is_lean=True)
    for step in range(130):
        tokens = pacer.max_prefill_tokens()
        duration_s = 0.1 + tokens * TOKEN_S
        if at == "later" and step in (60, 61):
            duration_s = 0.5 if step == 60 else 0.001
        pacer.observe(duration_s, max(tokens, 1), is_decoding=True, is_lean=tokens == 0)
    while pacer.max_prefill_tokens() == 0:
        pacer.observe(0.1, 1, is_decoding=True, is_lean=True)
    assert pacer.max_prefill_tokens() * TOKEN_S == pytest.approx(0.2, rel=0.1)  # 3 times 100 ms


def test_a_queue_drains_also_where_decoding_alone_is_too_slow() -> None:
    """10 ms between tokens is out of reach; prompts still continue, a few tokens at a time."""
    assert ready(0.010).max_prefill_tokens() == 16


def test_with_a_ratio_prompts_have_most_of_the_time_where_decodes_are_slow() -> None:
    """3 times 20 ms are more than 50: 40 ms for the prompt, 80 tokens."""
    assert ready(0.050, ratio=3.0).max_prefill_tokens() == pytest.approx(80, abs=2)


def test_a_ratio_changes_nothing_where_decodes_are_fast() -> None:
    """200 ms over a margin of 1.3 are 154: more than 3 times 20."""
    expected = ready(0.200).max_prefill_tokens()
    assert ready(0.200, ratio=3.0).max_prefill_tokens() == expected


@pytest.mark.parametrize("num_unavoidable", [0, 9, 72])
def test_prompts_under_a_ratio_go_on_where_no_step_is_without_one(num_unavoidable: int) -> None:
    """Decodes of 20 ms become decodes of 300 ms while prompts are in every step.

    Taken for the prompts' time, that would leave them 16 tokens for good.
    """
    pacer = ready(0.200, ratio=3.0)
    for _ in range(300):
        tokens = pacer.max_prefill_tokens()
        is_lean = tokens == 0
        tokens = tokens or num_unavoidable
        pacer.observe(0.300 + tokens * TOKEN_S, tokens, is_decoding=True, is_lean=is_lean)
    assert pacer.max_prefill_tokens() * TOKEN_S >= 0.300


@pytest.mark.parametrize("ratio", [-1.0, 0.5, 1.0, float("nan")])
def test_a_ratio_leaves_time_for_prompts(ratio: float) -> None:
    with pytest.raises(ValueError, match="it must be 0 or more than 1"):
        PrefillPacer(0.2, ratio=ratio)


@pytest.mark.parametrize("objective_s", [0.0, -1.0, float("nan")])
def test_an_objective_is_a_positive_time(objective_s: float) -> None:
    with pytest.raises(ValueError, match=rf"objective_s is {objective_s}; it must be positive"):
        PrefillPacer(objective_s)


def test_before_a_prefill_was_measured_a_prompt_token_is_taken_for_a_tenth_of_a_step() -> None:
    """120 ms over 1.3 leave 72 ms: 36 tokens of 2 ms."""
    assert pacer_after_decodes(0.120).max_prefill_tokens() == pytest.approx(36, abs=1)


def test_the_first_prefill_counts_fully_and_later_ones_by_a_fifth() -> None:
    """0.5 ms a token; then a chunk of what was allowed, at 0.55 ms a token, makes it 0.51 ms."""
    pacer = pacer_after_decodes(0.120)
    pacer.observe(DECODE_S + 150 * TOKEN_S, 150, is_decoding=True)
    allowed = pacer.max_prefill_tokens()
    assert allowed == pytest.approx(room(0.120, pacer._margin, 0.0005), abs=1)
    pacer.observe(DECODE_S + allowed * 0.00055, allowed, is_decoding=True)
    assert pacer.max_prefill_tokens() == pytest.approx(room(0.120, pacer._margin, 0.00051), abs=1)


def test_a_short_prompt_teaches_in_proportion() -> None:
    """Twenty of 8 tokens that cost nothing, of some 168 allowed: a 21st of a fifth each."""
    pacer = ready(0.120)
    before = pacer.max_prefill_tokens()
    for _ in range(20):
        pacer.observe(DECODE_S, 8, is_decoding=True)
        pacer.observe(DECODE_S, 0, is_decoding=True)
    assert before <= pacer.max_prefill_tokens() <= 1.3 * before


@pytest.mark.parametrize(("num_tokens", "factor"), [(168, 0.5 + 0.5 * 8.0), (120, 1.0)])
def test_a_late_step_longer_than_any_before_is_believed_at_once(
    num_tokens: int, factor: float
) -> None:
    """Ten times the time per token: half of eight times is learned, not a fifth of twice.

    A late step of a length that was in time before is noise, as far as the margin is wide enough.
    """
    pacer = ready(0.120)
    allowed = pacer.max_prefill_tokens()
    pacer.observe(DECODE_S + num_tokens * 10 * TOKEN_S, num_tokens, is_decoding=True)
    if factor == 1.0:
        factor += 0.2 * num_tokens / allowed
    expected = room(0.120, pacer._margin, TOKEN_S * factor)
    assert pacer.max_prefill_tokens() == pytest.approx(expected, abs=2)


def test_what_costs_nothing_is_tried_at_twice_the_length_at_most() -> None:
    """A GPU reads its weights in any case, up to some 200 tokens; then 0.1 ms a token.

    Only chats came so far. A prompt of 30,000 tokens must not get what its first ones cost: 0.8 s
    for vLLM's 8,192 in a step.
    """
    pacer = pacer_after_decodes(0.200, ratio=3.0)
    for _ in range(200):
        pacer.observe(DECODE_S, 60, is_decoding=True)
        pacer.observe(DECODE_S, 0, is_decoding=True)
    longest_s, num_late, computed, last = 0.0, 0, 0, 128
    while computed < 30_000:
        tokens = pacer.max_prefill_tokens()
        assert tokens <= 2 * last
        last = max(tokens, last)
        duration_s = DECODE_S + 0.0001 * max(tokens - 200, 0)
        longest_s = max(longest_s, duration_s)
        num_late += duration_s > 0.200
        pacer.observe(duration_s, tokens, is_decoding=True, is_lean=tokens == 0)
        computed += tokens
    assert longest_s <= 0.300
    assert num_late <= 2


@pytest.mark.parametrize("num_unavoidable", [17, 40])
def test_a_lean_step_need_not_be_free_of_prompts(num_unavoidable: int) -> None:
    """A draft length of 16 or more, or several prompts under way: their tokens are subtracted."""
    pacer = ready(0.120)
    for _ in range(16):
        pacer.observe(DECODE_S + 100 * TOKEN_S, 100, is_decoding=True)
    assert pacer.max_prefill_tokens() == 0
    pacer.observe(
        0.030 + num_unavoidable * TOKEN_S, num_unavoidable, is_decoding=True, is_lean=True
    )
    # 30 ms, with a weight of 1 - 0.8 ** 5.
    left_s = 0.120 / pacer._margin - (0.030 - 0.010 * 0.8**5)
    assert pacer.max_prefill_tokens() == pytest.approx(left_s / TOKEN_S, rel=0.02)


def test_steps_without_prompts_teach_what_decodes_take() -> None:
    """From 20 to 60 ms in steps of a fifth; then 120 ms over the margin less 60 ms are left."""
    pacer = ready(0.120)
    for _ in range(30):
        pacer.observe(0.060, 0, is_decoding=True)
    left_s = 0.120 / pacer._margin - 0.060
    assert pacer.max_prefill_tokens() == pytest.approx(left_s / TOKEN_S, abs=2)


def test_a_pause_of_the_machine_counts_as_twice_the_forecast() -> None:
    """5 s instead of 20 ms: decodes are taken for 24 ms, not for a second."""
    pacer = ready(0.120)
    pacer._learn_decode(5.0, 0)
    left_s = 0.120 / pacer._margin - 0.024
    assert pacer.max_prefill_tokens() == pytest.approx(left_s / TOKEN_S, abs=2)


def test_a_pause_with_a_short_prompt_costs_little() -> None:
    """As late: 8 times the forecast. That of 20 tokens, of 168 allowed, costs less than half."""
    pacer = ready(0.120)
    pacer._learn_token(0.119, pacer.max_prefill_tokens())
    pacer._learn_token(5.0, 20)
    assert pacer.max_prefill_tokens() * TOKEN_S >= 0.5 * (0.120 / 1.3 - DECODE_S)


def test_after_sixteen_steps_with_prompts_one_is_lean() -> None:
    pacer = ready(0.120)
    for _ in range(15):
        pacer.observe(DECODE_S + 100 * TOKEN_S, 100, is_decoding=True)
    assert pacer.max_prefill_tokens() != 0
    pacer.observe(DECODE_S + TOKEN_S, 1, is_decoding=True)
    assert pacer.max_prefill_tokens() == 0
    pacer.observe(0.030, 0, is_decoding=True)
    # The old time has 0.8 ** 5 of the weight left.
    left_s = 0.120 / pacer._margin - (0.030 - 0.010 * 0.8**5)
    assert pacer.max_prefill_tokens() == pytest.approx(left_s / TOKEN_S, rel=0.02)


@pytest.mark.parametrize("num_tokens", [0, 10, 1000])
def test_prompts_alone_say_nothing(num_tokens: int) -> None:
    """Without decodes a step takes another time, and no answer waits for it."""
    pacer = ready(0.120)
    before = pacer.max_prefill_tokens()
    for _ in range(20):
        pacer.observe(0.9, num_tokens, is_decoding=False)
        pacer.observe(0.001, num_tokens, is_decoding=False)
    assert pacer.max_prefill_tokens() == before


def test_a_prefill_faster_than_decoding_alone_costs_nothing_at_first() -> None:
    """Noise. What it really takes is learned from 0, too."""
    pacer = pacer_after_decodes(0.120)
    pacer.observe(DECODE_S / 2, 100, is_decoding=True)
    assert pacer.max_prefill_tokens() == 256
    for _ in range(60):
        tokens = pacer.max_prefill_tokens()
        is_lean = tokens == 0
        pacer.observe(DECODE_S + tokens * TOKEN_S, tokens, is_decoding=True, is_lean=is_lean)
    pacer.observe(DECODE_S, 0, is_decoding=True)
    assert pacer.max_prefill_tokens() == pytest.approx(room(0.120, pacer._margin, TOKEN_S), rel=0.1)


@pytest.mark.parametrize("duration_s", [0.0, -1.0])
def test_a_step_without_a_time_teaches_nothing(duration_s: float) -> None:
    pacer = ready(0.120)
    before = pacer.max_prefill_tokens()
    pacer.observe(duration_s, 0, is_decoding=True)
    pacer.observe(duration_s, 100, is_decoding=True)
    assert pacer.max_prefill_tokens() == before
