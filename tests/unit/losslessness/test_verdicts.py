"""The sequential test of verdicts: it passes right samplers and finds wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
from losslessness.verdicts.claims import acceptance_ratio, processed, residual, uniform_of
from losslessness.verdicts.evidence import Verdicts, acceptance_log_e, uniform_log_e
from losslessness.verdicts.power import power, smallest_bias_found

LOGITS = np.log(np.array([0.4, 0.3, 0.15, 0.1, 0.05]))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "expected"),
    [
        (1.0, 0, 1.0, [0.4, 0.3, 0.15, 0.1, 0.05]),
        (1.0, 2, 1.0, [4 / 7, 3 / 7, 0, 0, 0]),
        # 0.4 + 0.3 pass 0.6 with the second token.
        (1.0, 0, 0.6, [4 / 7, 3 / 7, 0, 0, 0]),
        # After top-k 2 the best has 4/7 > 0.5.
        (1.0, 2, 0.5, [1, 0, 0, 0, 0]),
        # Temperature 0.5 squares: 16, 9, 2.25 over top-k 3.
        (0.5, 3, 1.0, [16 / 27.25, 9 / 27.25, 2.25 / 27.25, 0, 0]),
    ],
)
def test_processed_logits(
    temperature: float, top_k: int, top_p: float, expected: list[float]
) -> None:
    """Temperature, then top-k, then top-p, with expected values worked out manually."""
    claim = processed(LOGITS, temperature=temperature, top_k=top_k, top_p=top_p)
    assert claim.probs == pytest.approx(expected)
    assert claim.is_certain


def test_a_limit_that_rounding_decides_is_uncertain() -> None:
    """Top-p at the sum of the two best tokens; top-k between two equal ones."""
    assert not processed(LOGITS, temperature=1.0, top_k=0, top_p=0.7).is_certain
    equal = np.log(np.array([0.5, 0.25, 0.25]))
    assert not processed(equal, temperature=1.0, top_k=2, top_p=1.0).is_certain


def test_ratio_and_residual() -> None:
    """Target 0.5, 0.3, 0.2; draft 0.2, 0.7, 0.1: the second token is accepted in 3 of 7 cases."""
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.7, 0.1])
    assert acceptance_ratio(target, draft, 1) == pytest.approx(3 / 7)
    assert acceptance_ratio(target, None, 1) == pytest.approx(0.3)
    assert residual(target, draft, 1) == pytest.approx([0.75, 0.0, 0.25])
    assert residual(target, None, 1) == pytest.approx([5 / 7, 0.0, 2 / 7])
    assert residual(draft, draft, 1) == pytest.approx([0.0, 0.0, 0.0])


def test_uniform_of_a_token() -> None:
    """Likelier tokens take the lower part; equally likely tokens share theirs."""
    probs = np.array([0.2, 0.5, 0.2, 0.1, 0.0])
    assert uniform_of(probs, 1, draw=0.5) == pytest.approx(0.25)
    assert uniform_of(probs, 0, draw=0.5) == uniform_of(probs, 2, draw=0.5) == pytest.approx(0.7)
    assert uniform_of(probs, 3, draw=0.0) == pytest.approx(0.9)
    assert uniform_of(probs, 4, draw=0.5) is None


def test_one_bet_is_worth_one_on_average() -> None:
    """The expectation of the e-value of one verdict, over both outcomes, is 1."""
    for ratio in (0.01, 0.3, 0.9):
        claimed = np.array([ratio])
        accepted = np.exp(acceptance_log_e(claimed, np.array([True])))
        rejected = np.exp(acceptance_log_e(claimed, np.array([False])))
        assert ratio * accepted + (1 - ratio) * rejected == pytest.approx(1.0)
    grid = (np.arange(1_000) + 0.5) / 1_000
    bets = [np.exp(uniform_log_e(np.array([value]))) for value in grid]
    assert np.mean(bets) == pytest.approx(1.0)


def test_a_right_sampler_passes_and_wrong_ones_are_found() -> None:
    """8,000 verdicts: right, thresholds 5 % too low, 5 % too high."""
    draws = np.random.default_rng(1)
    ratios = draws.uniform(0.2, 1.5, 8_000)
    uniforms = draws.random(8_000)
    found = {
        factor: acceptance_log_e(ratios, uniforms * factor < ratios) for factor in (1.0, 0.95, 1.05)
    }
    assert found[1.0] < 0.0
    assert min(found[0.95], found[1.05]) > np.log(1000)


def test_tokens_of_another_distribution_are_found() -> None:
    """2,000 transforms: uniform, and 10 % too many likely tokens."""
    uniforms = np.random.default_rng(2).random(2_000)
    assert uniform_log_e(uniforms) < 0.0
    assert uniform_log_e(uniforms**1.3) > np.log(1000)


def test_power_is_the_share_of_runs_that_find_the_bias() -> None:
    """The false alarm rate is far below 1/1000; the power rises with bias and size."""
    ratios = np.random.default_rng(3).uniform(0.2, 1.5, 8_000)
    assert power(ratios, threshold_factor=1.0, found_above=20, num_runs=200) <= 0.05
    assert power(ratios, threshold_factor=0.95, found_above=1000, num_runs=40) == 1.0
    assert power(ratios[:400], threshold_factor=0.95, found_above=1000, num_runs=40) < 0.5
    too_low, too_high = smallest_bias_found(ratios, found_above=1000, num_runs=40)
    assert 0.01 < too_low < 0.05
    assert 0.01 < too_high < 0.05
    assert smallest_bias_found(ratios[:20], found_above=1000, num_runs=20)[0] == float("inf")


def test_the_evidence_names_positions_and_kinds() -> None:
    """Verdicts at two positions; a token without probability is a proof."""
    verdicts = Verdicts()
    record = {
        "verdicts": [(0, 2.0, True), (1, 0.5, False), (0, 0.25, False)],
        "uniforms": {"recovered": [0.1, 0.9], "bonus": []},
        "counts": {"outside": 0, "other_drafts": 0},
        "largest_greedy_gap": 0.0,
        "requests": [],
    }
    verdicts.add(record)
    evidence = verdicts.evidence()
    assert evidence.num == {
        "acceptance": 3,
        "position 0": 2,
        "position 1": 1,
        "recovered": 2,
        "bonus": 0,
    }
    assert evidence.expected == {"position 0": 1.25, "position 1": 0.5}
    assert evidence.accepted == {"position 0": 1, "position 1": 0}
    assert 0.0 < evidence.e_value < 10.0
    verdicts.add({**record, "counts": {"outside": 1, "other_drafts": 0}})
    assert verdicts.evidence().e_value == float("inf")
