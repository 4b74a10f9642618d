"""The claimed distribution, with expected values worked out from 0.4, 0.3, 0.15, 0.1 and 0.05."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paceline.workbench.audit.statistics.claims import REST, claimed_probs
from paceline.workbench.audit.values import SamplingCase

ALL = {token: math.log(p) for token, p in enumerate((0.4, 0.3, 0.15, 0.1, 0.05))}
THREE = {token: ALL[token] for token in range(3)}
"""15 % of the probability is not named."""


def claimed(logprobs: Any = ALL, before: tuple[int, ...] = (), **parameters: Any) -> Any:
    return claimed_probs(logprobs, SamplingCase("case", **parameters), before)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, {0: 0.4, 1: 0.3, 2: 0.15, 3: 0.1, 4: 0.05, REST: 0.0}),
        ({"top_k": 2}, {0: 4 / 7, 1: 3 / 7, REST: 0.0}),
        # 0.4 + 0.3 reach 0.6 with the second token.
        ({"top_p": 0.6}, {0: 4 / 7, 1: 3 / 7, REST: 0.0}),
        # After top-k 2 the best has 4/7 > 0.5: alone it reaches top-p.
        ({"top_k": 2, "top_p": 0.5}, {0: 1.0, REST: 0.0}),
        # Temperature 0.5 squares: 16, 9, 2.25 over top-k 3.
        (
            {"temperature": 0.5, "top_k": 3},
            {0: 16 / 27.25, 1: 9 / 27.25, 2: 2.25 / 27.25, REST: 0.0},
        ),
        # A bias of ln 2 doubles: 0.6 next to 0.4, the likeliest first.
        ({"top_k": 2, "logit_bias": ((1, math.log(2)),)}, {1: 0.6, 0: 0.4, REST: 0.0}),
    ],
)
def test_parameters_apply_in_order(parameters: Any, expected: Any) -> None:
    found = claimed(**parameters)
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)


def test_penalties_count_the_output_so_far() -> None:
    """Token 0 twice, token 1 once: 2 * ln 2 + ln 2 and ln 2 + ln 2 nats less."""
    penalty = math.log(2)
    found = claimed(before=(0, 1, 0), presence_penalty=penalty, frequency_penalty=penalty)
    weights = {2: 0.15, 3: 0.1, 1: 0.3 / 4, 0: 0.4 / 8, 4: 0.05}
    total = sum(weights.values())
    assert found == pytest.approx({**{t: w / total for t, w in weights.items()}, REST: 0.0})


def test_tokens_that_are_not_named_share_the_rest() -> None:
    assert claimed(THREE) == pytest.approx({0: 0.4, 1: 0.3, 2: 0.15, REST: 0.15})


@pytest.mark.parametrize(
    "parameters",
    [
        {"temperature": 2.0},  # the weights of unnamed tokens have no bound
        {"top_p": 0.9},  # unnamed tokens belong to it
        {"top_k": 3, "temperature": 1.0, "logit_bias": ((9, 1.0),)},  # 9 is not named
        {"top_k": 4},  # the fourth is not named
        {"top_k": 3, "logit_bias": ((0, -3.0),)},  # an unnamed token may be third
    ],
)
def test_a_claim_that_depends_on_unnamed_tokens_is_none(parameters: Any) -> None:
    assert claimed(THREE, **parameters) is None


def test_a_claim_that_rounding_decides_is_none() -> None:
    """Two tokens at the edge of top-k 1 that differ by 1e-6; a sum at the edge of top-p."""
    assert claimed({0: math.log(0.5) + 1e-6, 1: math.log(0.5)}, top_k=1) is None
    assert claimed(top_p=0.7) is None
    assert claimed(top_p=0.7 + 1e-3) is not None
