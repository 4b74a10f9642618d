"""The losslessness checks themselves: they pass what is right and catch what is not."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from losslessness.bad_words import contains
from losslessness.sampling import REST, by_prefix, g_test, processed_distribution

LOGPROBS = {token: math.log(p) for token, p in enumerate((0.4, 0.3, 0.15, 0.1, 0.05))}


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "expected"),
    [
        (1.0, 5, 1.0, {0: 0.4, 1: 0.3, 2: 0.15, 3: 0.1, 4: 0.05}),
        (1.0, 2, 1.0, {0: 4 / 7, 1: 3 / 7}),
        # 0.4 + 0.3 reach 0.7; 0.6 is reached with the second token too.
        (1.0, 5, 0.6, {0: 4 / 7, 1: 3 / 7}),
        # After top-k 2 the best has 4/7 > 0.5: alone it reaches top-p.
        (1.0, 2, 0.5, {0: 1.0}),
        # Temperature 0.5 squares: 16, 9, 2.25, … over top-k 3.
        (0.5, 3, 1.0, {0: 16 / 27.25, 1: 9 / 27.25, 2: 2.25 / 27.25}),
    ],
)
def test_processed_distribution(
    temperature: float, top_k: int, top_p: float, expected: dict[int, float]
) -> None:
    """Temperature, then top-k, then top-p, with expected values worked out manually."""
    found = processed_distribution(LOGPROBS, temperature=temperature, top_k=top_k, top_p=top_p)
    assert found == pytest.approx(expected)


def test_without_top_k_the_rest_is_one_cell() -> None:
    """Two tokens known, 30 % unnamed."""
    known = {0: LOGPROBS[0], 1: LOGPROBS[1]}
    assert processed_distribution(known, temperature=1.0, top_k=0, top_p=1.0) == pytest.approx(
        {0: 0.4, 1: 0.3, REST: 0.3}
    )


def draws(weights: dict[int, float], num: int, seed: int) -> Counter[int]:
    return Counter(random.Random(seed).choices(list(weights), list(weights.values()), k=num))


DISTRIBUTION = {0: 0.4, 1: 0.3, 2: 0.15, 3: 0.1, 4: 0.04, 5: 0.01}


def test_g_test_passes_the_right_distribution() -> None:
    """200 tests: p-values under 0.05 in about 5 % of them (11 expected at most 25)."""
    p_values = [
        g_test({(): draws(DISTRIBUTION, 1000, seed)}, {(): DISTRIBUTION}).p_value
        for seed in range(200)
    ]
    assert sum(p < 0.05 for p in p_values) <= 25
    assert min(p_values) > 1e-4


def test_g_test_catches_a_small_planted_bias() -> None:
    """Two prefixes, 3000 samples each, one token's share up by a seventh."""
    biased = {**DISTRIBUTION, 1: 0.34, 0: 0.36}
    samples = {(1,): draws(biased, 3000, 0), (2,): draws(biased, 3000, 1)}
    assert g_test(samples, {(1,): DISTRIBUTION, (2,): DISTRIBUTION}).p_value < 1e-6


def test_g_test_catches_one_impossible_token() -> None:
    """9 is not in the support: no number of right ones makes up for it."""
    counts = draws(DISTRIBUTION, 1000, 0) + Counter({9: 1})
    result = g_test({(): counts}, {(): DISTRIBUTION})
    assert (result.num_outside, result.p_value) == (1, 0.0)


def test_samples_are_grouped_by_what_came_before() -> None:
    """Three outputs share the first token, one does not; single samples are left out."""
    groups = by_prefix(
        [[1, 2, 3], [1, 2, 4], [1, 5, 6], [9, 9, 9]], first_position=1, min_samples=2
    )
    assert groups == {(1,): Counter({2: 2, 5: 1}), (1, 2): Counter({3: 1, 4: 1})}


def test_a_bad_word_is_a_run_of_tokens() -> None:
    """Two sequences, of two tokens and of one; the tokens of the first apart from each other."""
    sequences = [[7, 8], [9]]
    assert contains([1, 7, 8], sequences)
    assert contains([9, 1], sequences)
    assert not contains([7, 1, 8], sequences)
    assert not contains([7], sequences)
