"""Sampling parameters change the next token as in vLLM; the expected values come from formulas.

The candidate of rank r has logit 4 - r / 2, so without parameters its weight is e^(-r / 2).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from paceline.testing.mock_vllm.model.sampling import Sampler, SamplingParams
from paceline.testing.mock_vllm.model.token_function import TokenSource
from paceline.testing.mock_vllm.model.vocabulary import END, FIRST_WORD, NUM_WORDS, encode_text

PROMPT = encode_text("abc")
RANKED = TokenSource(PROMPT, eos_every_tokens=0).candidates()
ELSEWHERE = FIRST_WORD + (RANKED[0] - FIRST_WORD + 50) % NUM_WORDS
"""A word that is no candidate."""


def sampler(prompt: list[int] = PROMPT, **params: Any) -> Sampler:
    return Sampler(prompt, SamplingParams(max_tokens=9, seed=0, **params), eos_every_tokens=0)


def first(**params: Any) -> list[tuple[int, float]]:
    """The tokens that may come first, with their probabilities."""
    return list(zip(*sampler(**params).distribution(), strict=True))


def normalised(*weights: float) -> list[float]:
    return [pytest.approx(weight / sum(weights)) for weight in weights]


@pytest.mark.parametrize(
    ("params", "ranks", "weights"),
    [
        ({}, range(8), [math.exp(-r / 2) for r in range(8)]),
        ({"temperature": 0.5}, range(8), [math.exp(-r) for r in range(8)]),
        ({"top_k": 2}, (0, 1), (1, math.exp(-0.5))),
        ({"top_k": -1}, range(8), [math.exp(-r / 2) for r in range(8)]),
        # 0.401 is less than a half; 0.401 + 0.243 is more
        ({"top_p": 0.5}, (0, 1), (1, math.exp(-0.5))),
        ({"top_p": 0.4}, (0,), (1,)),
        # 1, 0.61, 0.37 and 0.22 of the best
        ({"min_p": 0.3}, (0, 1, 2), (1, math.exp(-0.5), math.exp(-1))),
        ({"min_p": 0.3, "temperature": 0.5}, (0, 1), (1, math.exp(-1))),
        ({"logit_bias": ((RANKED[0], -100.0),), "top_k": 2}, (1, 2), (1, math.exp(-0.5))),
        ({"logit_bias": ((RANKED[7], 4.0),), "top_k": 2}, (7, 0), (1, math.exp(-0.5))),
        ({"allowed_token_ids": frozenset(RANKED[3:5])}, (3, 4), (1, math.exp(-0.5))),
    ],
)
def test_each_parameter(params: dict[str, Any], ranks: Any, weights: Any) -> None:
    found = first(**params)
    assert [token for token, _ in found] == [RANKED[rank] for rank in ranks]
    assert [prob for _, prob in found] == normalised(*weights)


def test_a_bias_brings_in_a_token_that_is_no_candidate() -> None:
    assert first(logit_bias=((ELSEWHERE, 100.0),))[0] == (ELSEWHERE, pytest.approx(1.0))
    allowed = frozenset(RANKED)
    assert ELSEWHERE not in dict(first(logit_bias=((ELSEWHERE, 100.0),), allowed_token_ids=allowed))


def test_tokens_of_the_prompt_are_penalised() -> None:
    """A penalty of 2 halves the positive logits, here those of all candidates."""
    prompt = list(range(FIRST_WORD, FIRST_WORD + NUM_WORDS))
    tokens, probs = sampler(prompt, repetition_penalty=2.0).distribution()
    assert tokens == TokenSource(prompt, eos_every_tokens=0).candidates()
    assert list(probs) == normalised(*(math.exp(-r / 4) for r in range(8)))


def test_tokens_of_the_answer_are_penalised_as_those_of_the_prompt() -> None:
    ours = sampler(repetition_penalty=2.0)
    answer = [ours.next_token() for _ in range(60)]
    again = sampler([*PROMPT, *answer], repetition_penalty=2.0)
    assert ours.distribution() == again.distribution()


def test_greedy_decoding_takes_the_best_after_bias_and_penalty() -> None:
    greedy = SamplingParams(max_tokens=9, top_k=5, top_p=0.1)
    assert Sampler(PROMPT, greedy, eos_every_tokens=0).next_token() == RANKED[0]
    biased = replace(greedy, logit_bias=((RANKED[5], 10.0),))
    assert Sampler(PROMPT, biased, eos_every_tokens=0).next_token() == RANKED[5]


def test_the_end_token_does_not_come_below_the_least_number_of_tokens() -> None:
    params = SamplingParams(max_tokens=9, allowed_token_ids=frozenset({END, RANKED[1]}))
    tokens, _ = Sampler(PROMPT, params, eos_every_tokens=1).distribution(may_end=False)
    assert tokens == [RANKED[1]]


def test_tokens_occur_as_often_as_their_probability() -> None:
    counts: Counter[int] = Counter()
    num = 4000
    for seed in range(num):
        params = SamplingParams(max_tokens=1, seed=seed)
        counts[Sampler(PROMPT, params, eos_every_tokens=0).next_token()] += 1
    chi_square = sum((counts[t] - num * p) ** 2 / (num * p) for t, p in first())
    assert chi_square < 24.3  # exceeded with probability 0.001 at 7 degrees of freedom
    assert counts.keys() == dict(first()).keys()


def test_the_same_seed_draws_the_same_numbers_again_from_any_context() -> None:
    def draws(prompt: list[int]) -> list[tuple[int, int]]:
        """Number of candidates, and the rank of the chosen one."""
        ours, found = sampler(prompt), []
        for _ in range(40):
            tokens, _ = ours.distribution()
            found.append((len(tokens), tokens.index(ours.next_token())))
        return found

    pairs = list(zip(*(draws(encode_text(text)) for text in ("abc", "xyz")), strict=True))
    compared = [(one, two) for one, two in pairs if one[0] == two[0]]
    assert len(compared) > 20
    assert all(one == two for one, two in compared)
