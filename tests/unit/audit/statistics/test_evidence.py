"""E-values: bets have expectation 1 under the claim, and grow where the claim is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.workbench.audit.statistics.bets import (
    DEPENDENCE_NAMES,
    NAMES,
    Batch,
    dependence_bets,
    log_bets,
    uniforms,
)
from paceline.workbench.audit.statistics.evidence import ALONG, BETWEEN, Evidence, Observed

PROBS = np.array([0.5, 0.3, 0.15, 0.05])


def batch(index: np.ndarray, ignoring: dict[str, np.ndarray] | None = None) -> Batch:
    rows = np.tile(PROBS, (len(index), 1))
    return Batch(rows, index, np.full(len(index), 4), ignoring or {})


def observed(index: np.ndarray, answers: list[int] | None = None) -> Observed:
    num = len(index)
    numbers = tuple(answers or range(num))
    return Observed(batch(index), ("case",) * num, (True,) * num, numbers, numbers)


def test_bets_have_expectation_one_under_the_claim() -> None:
    """Exactly, over the four cells."""
    other = {"temperature": np.tile([0.7, 0.2, 0.1, 0.0], (4, 1))}
    bets = np.exp(log_bets(batch(np.arange(4), other)))
    assert bets @ PROBS == pytest.approx(np.ones(len(NAMES)))


def test_bets_of_dependence_have_expectation_one_whatever_the_earlier_number_was() -> None:
    """The midpoint rule with 10,000 points, for five earlier numbers."""
    points = (np.arange(10_000) + 0.5) / 10_000
    for earlier in (0.0, 0.2, 0.5, 0.77, 1.0):
        bets = np.exp(dependence_bets(np.full(10_000, earlier), points))
        assert bets.mean(axis=1) == pytest.approx(np.ones(len(DEPENDENCE_NAMES)), abs=1e-6)


def test_uniforms_cover_the_unit_interval_in_order_of_probability() -> None:
    found = uniforms(batch(np.array([0, 0, 1, 3])), np.array([0.0, 1.0, 0.5, 1.0]))
    assert found == pytest.approx([0.0, 0.5, 0.65, 1.0])


def test_one_improbable_token_is_no_proof_and_three_are() -> None:
    """A cell without probability, as top-k leaves it; rounding may let one token through."""
    probs = np.tile([0.6, 0.4, 0.0], (3, 1))

    def log_e(num: int) -> float:
        evidence = Evidence()
        rows = Batch(probs[:num], np.full(num, 2), np.full(num, 3), {})
        numbers = tuple(range(num))
        evidence.add(Observed(rows, ("case",) * num, (True,) * num, numbers, numbers))
        return evidence.log_e

    assert log_e(1) < np.log(1e5)
    assert log_e(3) > np.log(1e6)


def test_wrong_shares_are_found_and_named() -> None:
    """The likeliest token is drawn for 65 % instead of 50 %."""
    index = np.random.default_rng(0).choice(4, size=1500, p=[0.65, 0.2, 0.1, 0.05])
    evidence = Evidence()
    evidence.add(observed(index))
    assert evidence.log_e > np.log(1000)
    assert evidence.pooled.expected_top == 750
    assert evidence.pooled.observed_top == int((index == 0).sum())
    assert evidence.pooled.best_alternative == "odds of the likeliest token times 2"


def test_equal_draws_in_a_row_are_found_though_every_share_is_right() -> None:
    """Every draw occurs twice, in one answer and between answers."""
    index = np.repeat(np.random.default_rng(1).choice(4, size=300, p=PROBS), 2)
    evidence = Evidence()
    evidence.add(observed(index, answers=[number // 2 for number in range(600)]))
    assert evidence.groups[ALONG].log_e > np.log(1000)
    assert evidence.groups[BETWEEN].log_e > np.log(1000)
    assert evidence.groups["case"].log_e < np.log(1000)


def test_first_tokens_are_the_control_and_not_the_verdict() -> None:
    index = np.zeros(200, dtype=np.int64)
    evidence = Evidence()
    numbers = tuple(range(200))
    evidence.add(Observed(batch(index), ("case",) * 200, (False,) * 200, numbers, numbers))
    assert evidence.control.log_e > np.log(1000)
    assert evidence.pooled.num_tokens == 0
    assert evidence.log_e < np.log(1000)


def test_rounding_of_a_coarse_format_is_not_taken_for_bias() -> None:
    """Tokens drawn from probabilities that differ from the claim by random 0.1 nats."""
    draws = np.random.default_rng(2)
    logits = np.log(PROBS) + draws.normal(0, 0.1, size=(20_000, 4))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    index = (draws.random(20_000)[:, None] > true.cumsum(axis=1)).sum(axis=1).clip(max=3)
    evidence = Evidence(noise_nats=0.1)
    evidence.add(observed(index))
    assert evidence.log_e < np.log(1000)


def test_tokens_that_may_lack_drafts_add_no_power() -> None:
    evidence = Evidence()
    numbers = tuple(range(10))
    rows = batch(np.zeros(10, dtype=np.int64))
    names = ("case",) * 6 + ("logit bias",) * 4
    lacking = (False,) * 6 + (True,) * 4
    evidence.add(Observed(rows, names, (True,) * 10, numbers, numbers, lacking))
    assert len(evidence.top_probs) == evidence.pooled.num_tokens == 6
    assert evidence.groups["logit bias"].num_tokens == 4
