"""Tier 2 on divergences with known figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.foundation.answer_quality.decisions import Limits, judge_fidelity
from paceline.foundation.answer_quality.values import TextKind
from unit.quality.made import make_divergence, make_texts

TEXTS = make_texts(30)


def rounding(number: int) -> float:
    """The yardstick's divergence: from 1e-4 to 3e-3."""
    return 1e-4 * (number + 1)


YARDSTICK = make_divergence(TEXTS, rounding)


def test_the_divergence_of_rounding_passes() -> None:
    # 30 conversations bound the perplexity at 15 %.
    found = judge_fidelity(TEXTS, YARDSTICK, YARDSTICK, Limits(perplexity_increase=0.2))
    assert found.faults == ()
    assert found.lacking == ()
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.0)
    assert (found.num_conversations, found.num_tokens) == (30, 120)
    assert found.mean_kl_nats == found.yardstick_kl_nats == pytest.approx(15.5e-4)


@pytest.mark.parametrize(("factor", "is_rejected"), [(1.9, False), (2.1, True)])
def test_the_limit_divides_sound_from_faulty(factor: float, is_rejected: bool) -> None:
    candidate = make_divergence(TEXTS, lambda number: factor * rounding(number))
    found = judge_fidelity(TEXTS, candidate, YARDSTICK, Limits())
    assert bool(found.faults) == is_rejected
    assert judge_fidelity(TEXTS, candidate, YARDSTICK, Limits(2.5)).faults == ()


def test_a_fault_in_nine_of_sixty_conversations_is_rejected() -> None:
    """The centre hardly moves; only the largest divergences show it."""
    texts = make_texts(60)
    candidate = make_divergence(texts, lambda n: 1.0 if n % 7 == 0 else rounding(n))
    found = judge_fidelity(texts, candidate, make_divergence(texts, rounding), Limits())
    assert found.ratio is not None
    assert found.ratio.value < 2
    assert len(found.faults) == 1
    assert "largest divergence of a token" in found.faults[0]


def test_noisy_figures_of_few_conversations_neither_reject_nor_approve() -> None:
    texts = make_texts(10)
    yardstick = make_divergence(texts, rounding)
    candidate = make_divergence(texts, lambda n: rounding(n) * (10 if n % 2 else 0.5))
    found = judge_fidelity(texts, candidate, yardstick, Limits())
    assert found.faults == ()
    assert "give more prompts" in found.lacking[0]


def test_conversations_are_the_unit_whatever_their_number_of_texts() -> None:
    """Nine texts of one conversation are one observation, and cannot reject."""
    texts = [
        *make_texts(9),
    ]
    same = [type(text)(text.key, "one", text.kind, text.prompt_ids, text.token_ids)
            for text in texts]  # fmt: skip
    candidate = make_divergence(texts, lambda _: 1.0)
    yardstick = make_divergence(texts, rounding)
    assert judge_fidelity(texts, candidate, yardstick, Limits()).faults
    assert not judge_fidelity(same, candidate, yardstick, Limits()).faults


def test_perplexity_counts_on_references_where_there_are_any() -> None:
    references = make_texts(30, TextKind.REFERENCE)
    texts = [*TEXTS, *references]
    yardstick = make_divergence(texts, lambda _: 1e-3)
    candidate = make_divergence(TEXTS, lambda _: 1e-3) | make_divergence(
        references, lambda _: 1e-3, loss_nats=0.05
    )
    found = judge_fidelity(texts, candidate, yardstick, Limits())
    assert found.perplexity_on is TextKind.REFERENCE
    assert found.perplexity_increase.value == pytest.approx(math.expm1(0.05))
    assert len(found.faults) == 1
    assert "perplexity is 5.1% higher (limit 2.0%)" in found.faults[0]


@pytest.mark.parametrize(("num", "is_proven"), [(200, False), (300, True)])
def test_equal_perplexity_is_proven_by_enough_conversations(num: int, is_proven: bool) -> None:
    texts = make_texts(num)
    same = make_divergence(texts, rounding)
    found = judge_fidelity(texts, same, same, Limits())
    assert found.faults == ()
    assert (found.lacking == ()) == is_proven


def test_a_perplexity_that_may_exceed_its_limit_is_lacking() -> None:
    """Losses around 0.05 nats, limit 0.02: hardly any of these samples is clear either way."""
    texts = make_texts(40)
    yardstick = make_divergence(texts, rounding)
    draws = np.random.default_rng(4)
    for _ in range(10):
        candidate = make_divergence(texts, rounding, draws.normal(0.05, 0.12, 40).tolist())
        found = judge_fidelity(texts, candidate, yardstick, Limits())
        assert found.faults or "its perplexity changes by" in found.lacking[0]


def test_a_fifth_of_broken_conversations_shows_in_the_perplexity() -> None:
    """The typical conversation loses nothing. The mean of 0.2 nats, at most 1 each, is 22 %."""
    texts = make_texts(100)
    yardstick = make_divergence(texts, rounding)
    candidate = make_divergence(texts, rounding, [1.2 if n % 5 == 0 else 0.0 for n in range(100)])
    found = judge_fidelity(texts, candidate, yardstick, Limits())
    assert found.perplexity_increase.value == pytest.approx(math.expm1(0.2))
    assert found.faults == ("its perplexity is 22.1% higher (limit 2.0%)",)


def test_a_yardstick_without_numbers_proves_nothing() -> None:
    texts = make_texts(300)
    broken = make_divergence(texts, lambda _: math.nan)
    found = judge_fidelity(texts, make_divergence(texts, rounding), broken, Limits())
    assert len(found.lacking) == 1
    assert "do not prove it to be below" in found.lacking[0]


def test_a_format_without_yardstick_is_judged_by_perplexity_alone() -> None:
    candidate = make_divergence(TEXTS, lambda _: 1.0)
    found = judge_fidelity(TEXTS, candidate, None, Limits())
    assert found.ratio is None
    assert found.faults == ()
    assert "no yardstick" in found.lacking[0]


@pytest.mark.parametrize(("num", "is_rejected"), [(8, False), (9, True)])
def test_rejection_needs_the_conversations_that_its_error_needs(
    num: int, is_rejected: bool
) -> None:
    """At 0.002 all of nine must agree: 2^-9 = 0.00195, 2^-8 = 0.0039."""
    texts = make_texts(num)
    candidate = make_divergence(texts, lambda n: 5 * rounding(n))
    yardstick = make_divergence(texts, rounding)
    assert bool(judge_fidelity(texts, candidate, yardstick, Limits()).faults) == is_rejected
