"""The token function: pinned values, continuations, and what the tokens depend on."""

from __future__ import annotations

import pytest

from paceline.testing.mock_vllm import encode_chat, encode_text, expected_answer
from paceline.testing.mock_vllm.model.token_function import MAX_CANDIDATES, TokenSource

PROMPT = encode_chat([("user", "hé?")], add_generation_prompt=True)


def test_the_function_returns_these_tokens() -> None:
    """A change of the function would invalidate every recorded request log."""
    assert expected_answer(encode_text("abc"), 8).ids == (264, 296, 289, 260, 240, 347, 181, 291)
    assert expected_answer(encode_text("abc"), 4, seed=7).ids == (265, 323, 276, 262)


def test_a_greedy_continuation_from_any_token_is_the_rest_of_the_answer() -> None:
    """Even from a token in the middle of a character."""
    whole = expected_answer(PROMPT, 400, eos_every_tokens=0)
    for num_sent in range(1, 400):
        context = [*PROMPT, *whole.ids[:num_sent]]
        rest = expected_answer(context, 400 - num_sent, eos_every_tokens=0)
        assert rest.ids == whole.ids[num_sent:]


@pytest.mark.parametrize("prompt", [PROMPT, [*PROMPT, 0xF0], [*PROMPT, 0xE6, 0x97]])
def test_candidates_are_different_and_the_greedy_one_is_first(prompt: list[int]) -> None:
    source = TokenSource(prompt, eos_every_tokens=4)
    for _ in range(200):
        candidates = source.candidates()
        assert candidates[0] == source.greedy()
        assert 1 <= len(candidates) == len(set(candidates)) <= MAX_CANDIDATES
        source.append(candidates[-1])


def test_answers_depend_on_the_prompt_and_the_seed() -> None:
    base = expected_answer([1, 2, 3], 20)
    assert expected_answer([1, 2, 4], 20).ids != base.ids
    assert expected_answer([2, 1, 3], 20).ids != base.ids
    assert expected_answer([1, 2, 3], 20, seed=0).ids != base.ids
    assert expected_answer([1, 2, 3], 20, seed=0).ids != expected_answer([1, 2, 3], 20, seed=1).ids
