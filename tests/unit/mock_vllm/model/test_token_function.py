"""The token function: pinned values, continuations, and what the tokens depend on."""

from __future__ import annotations

import pytest

from paceline.mock_vllm import encode_chat, encode_text, expected_answer

PROMPT = encode_chat([("user", "hé?")], add_generation_prompt=True)


def test_the_function_returns_these_tokens() -> None:
    """A change of the function would invalidate every recorded request log."""
    assert expected_answer(encode_text("abc"), 8).ids == (264, 296, 289, 260, 240, 347, 181, 291)
    assert expected_answer(encode_text("abc"), 4, seed=7).ids == (332, 230, 380, 273)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_continuation_from_any_token_is_the_rest_of_the_answer(seed: int | None) -> None:
    """Even from a token in the middle of a character."""
    whole = expected_answer(PROMPT, 400, seed=seed, eos_every_tokens=0)
    for num_sent in range(1, 400):
        context = [*PROMPT, *whole.ids[:num_sent]]
        rest = expected_answer(context, 400 - num_sent, seed=seed, eos_every_tokens=0)
        assert rest.ids == whole.ids[num_sent:]


def test_answers_depend_on_the_prompt_and_the_seed() -> None:
    base = expected_answer([1, 2, 3], 20)
    assert expected_answer([1, 2, 4], 20).ids != base.ids
    assert expected_answer([2, 1, 3], 20).ids != base.ids
    assert expected_answer([1, 2, 3], 20, seed=0).ids != base.ids
    assert expected_answer([1, 2, 3], 20, seed=0).ids != expected_answer([1, 2, 3], 20, seed=1).ids
