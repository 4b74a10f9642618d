"""Planted sampling defects: right speculation keeps the distribution, each defect changes it."""

from __future__ import annotations

from collections import Counter

import pytest

from paceline.testing.mock_vllm.model.answer import AnswerGenerator
from paceline.testing.mock_vllm.model.sampling import Sampler, SamplingParams
from paceline.testing.mock_vllm.model.sampling_defect import DefectKind, SamplingDefect
from paceline.testing.mock_vllm.model.vocabulary import encode_text

PROMPT = encode_text("abc")
NUM_ANSWERS = 3_000


def second_tokens(kind: DefectKind) -> tuple[Counter[int], dict[int, float]]:
    """The drafted second tokens after the likeliest first one, and their true probabilities."""
    params = {"temperature": 0.5, "top_k": 4}
    counts: Counter[int] = Counter()
    first = Sampler(PROMPT, SamplingParams(2), eos_every_tokens=0).next_token()
    for seed in range(NUM_ANSWERS):
        sampling = SamplingParams(2, seed=seed, defect=SamplingDefect(kind), **params)
        ids = AnswerGenerator(PROMPT, sampling, 0).advance(2).ids
        if ids[0] == first:
            counts[ids[1]] += 1
    right = Sampler([*PROMPT, first], SamplingParams(1, seed=0, **params), eos_every_tokens=0)
    return counts, dict(zip(*right.distribution(), strict=True))


def g_statistic(counts: Counter[int], probs: dict[int, float]) -> float:
    """Pearson's chi-square with a cell for tokens outside the distribution."""
    total = counts.total()
    outside = sum(count for token, count in counts.items() if token not in probs)
    cells = [(counts[token], total * prob) for token, prob in probs.items()]
    return sum((seen - due) ** 2 / due for seen, due in cells) + outside


def test_right_speculation_keeps_the_distribution() -> None:
    """Chi-square with 3 degrees of freedom exceeds 16.3 with probability 0.001."""
    counts, probs = second_tokens(DefectKind.NO_DEFECT)
    assert counts.total() > 1_500
    assert g_statistic(counts, probs) < 16.3


@pytest.mark.parametrize(
    "kind",
    [
        DefectKind.ACCEPT_ALL,
        DefectKind.OFF_BY_ONE,
        DefectKind.WRONG_DRAFT_PROBS,
        DefectKind.RESIDUAL_FROM_TARGET,
        DefectKind.TEMPERATURE_IGNORED,
        DefectKind.FILTERS_IGNORED,
        DefectKind.RANDOM_TEMPERATURE,
    ],
)
def test_each_defect_of_verification_changes_it(kind: DefectKind) -> None:
    assert g_statistic(*second_tokens(kind)) > 16.3


def test_a_flipped_argmax_is_the_second_candidate_and_never_the_first_token() -> None:
    plain = Sampler(PROMPT, SamplingParams(2), eos_every_tokens=0)
    first = plain.next_token()
    second = plain.distribution()[0][1]
    flipped = SamplingParams(2, defect=SamplingDefect(DefectKind.ARGMAX_FLIP))
    assert AnswerGenerator(PROMPT, flipped, 0).advance(2).ids == [first, second]


def test_a_reused_seed_gives_every_answer_the_same_tokens_after_the_first() -> None:
    """First tokens are never drafted, and differ; equal ones have the same continuation."""
    defect = SamplingDefect(DefectKind.SEED_REUSE)
    answers = {
        tuple(
            AnswerGenerator(PROMPT, SamplingParams(8, seed=seed, defect=defect), 0).advance(8).ids
        )
        for seed in range(20)
    }
    assert 1 < len(answers) == len({answer[0] for answer in answers}) < 20


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_share_is_a_fraction(share: float) -> None:
    with pytest.raises(ValueError, match="share must be above 0"):
        SamplingDefect(DefectKind.ACCEPT_ALL, share)
