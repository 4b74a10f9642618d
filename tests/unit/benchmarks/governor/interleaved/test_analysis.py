"""References are chosen on other repeats; ratios follow from rates worked out in the tests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.governor.interleaved.analysis import analyse, choose_on_others
from benchmarks.governor.interleaved.measured import read_measured
from benchmarks.governor.interleaved.report import render_report

from .documents import document

STABLE = {
    "none": [[100.0, 50.0]] * 3,
    "none#again": [[101.0, 50.0]] * 3,
    "K=1": [[150.0, 60.0]] * 3,
    "K=4": [[200.0, 40.0]] * 3,
    "goodput": [[190.0, 57.0]] * 3,
}
PHASES = ["1-predictable", "16-hard"]


def test_the_oracle_is_scored_on_a_repeat_that_did_not_choose_it() -> None:
    """K=1 wins repeats 0 and 1, K=4 repeat 2 alone; repeat 2 is scored with K=1 nevertheless."""
    rates = np.array([[[100.0], [100.0], [80.0]], [[90.0], [90.0], [120.0]]])
    # For repeat 0 the others say: 100*80 against 90*120, so K=4 although it lost repeat 0.
    assert choose_on_others(rates)[:, 0].tolist() == [1, 1, 0]


def test_a_slow_repeat_does_not_weigh_less_or_more() -> None:
    """Dividing all rates of a repeat by ten leaves every choice as it was."""
    rates = np.array([[[100.0], [100.0], [80.0]], [[90.0], [90.0], [120.0]]])
    slow = rates.copy()
    slow[:, 1] /= 10
    assert (choose_on_others(slow) == choose_on_others(rates)).all()


def test_totals_are_tokens_over_seconds() -> None:
    found = analyse(read_measured(document(STABLE, PHASES)))
    [policy] = found.policies
    # 200 tokens each: oracle 100/200 + 100/60 s, policy 100/190 + 100/57, K=1 100/150 + 100/60.
    oracle_s, policy_s, single_s = 0.5 + 100 / 60, 100 / 190 + 100 / 57, 100 / 150 + 100 / 60
    assert policy.of_oracle.mean == pytest.approx(oracle_s / policy_s)
    assert policy.of_oracle_by_phase.mean == pytest.approx((190 / 200 + 57 / 60) / 2)
    assert found.single == ("K=1", "K=1", "K=1")
    assert policy.of_single.mean == pytest.approx(single_s / policy_s)
    lead = single_s / oracle_s - 1
    assert policy.lead_share == pytest.approx((single_s / policy_s - 1) / lead)


def test_the_worst_phase_is_against_the_better_of_off_and_fixed() -> None:
    rates = STABLE | {"K=1": [[150.0, 45.0]] * 3}  # off is now best in the second phase
    found = analyse(read_measured(document(rates, PHASES)))
    [policy] = found.policies
    assert policy.worst_phase == 0
    assert policy.of_floor[0].mean == pytest.approx(190 / 200)
    assert policy.of_floor[1].mean == pytest.approx(57 / 50)


def test_the_control_is_the_second_engine_over_the_first() -> None:
    found = analyse(read_measured(document(STABLE, PHASES)))
    assert found.control is not None
    assert [round(one.mean, 3) for one in found.control] == [1.01, 1.0]


def test_phases_of_the_same_name_count_together() -> None:
    """Two turns of 100 tokens in 1 s and in 3 s are 50 tokens/s, not the mean of the rates."""
    rates = {"none": [[100.0, 100 / 3]], "K=1": [[100.0, 100.0]]}
    measured = read_measured(document(rates, ["16-code", "16-code"]))
    assert measured.phases == ("16-code",)
    assert measured.rates["none"].tolist() == [[pytest.approx(50.0)]]


def test_one_repeat_is_said_not_to_be_cross_fitted() -> None:
    one = document({arm: rows[:1] for arm, rows in STABLE.items()}, PHASES)
    assert not analyse(read_measured(one)).is_cross_fitted
    assert "One repeat only" in render_report(one)


def test_an_incomplete_repeat_does_not_count() -> None:
    result = document(STABLE, PHASES)
    del result["runs"][-1]
    assert read_measured(result).num_repeats == 2


def test_no_lead_gives_no_share() -> None:
    """Where one length is best in every phase, there is no lead to have a share of."""
    rates = {arm: [[row[0]] for row in rows] for arm, rows in STABLE.items()}
    [policy] = analyse(read_measured(document(rates, PHASES[:1]))).policies
    assert math.isnan(policy.lead_share)


def test_without_fixed_lengths_the_report_says_so() -> None:
    result = document({"none": [[1.0]], "goodput": [[1.0]]}, ["1-code"])
    assert "no fixed length was measured" in render_report(result)


def test_the_report_shows_rates_and_ratios() -> None:
    report = render_report(document(STABLE, PHASES))
    assert "| 1-predictable | 100 (100 to 100) |" in report
    assert "**200 (200 to 200)**" in report
    assert "| 1-predictable | K=4, K=4, K=4 | 0.950 (0.950 to 0.950, n=3) |" in report
