"""Oracle, ratios and verdicts from small figures with known results."""

from __future__ import annotations

import pytest

from benchmarks.governor.report.adaptation import adaptations, buckets_to_near_best
from benchmarks.governor.report.analysis import analyse
from benchmarks.governor.report.measured import estimate, read_runs
from benchmarks.governor.report.tables import render_percent
from benchmarks.governor.report.targets import Verdict, judge
from unit.benchmarks.governor.documents import document_of

TOKENS = {
    "none": [[50, 300], [50, 300]],
    "K=0": [[40, 200], [60, 220]],
    "K=2": [[100, 100], [100, 120]],
    "table": [[100, 200], [100, 220]],
    "goodput": [[90, 210], [110, 220]],
}


def test_the_oracle_takes_the_best_fixed_length_of_each_phase() -> None:
    """Medians: K=0 has 50 and 210, K=2 has 100 and 110; with none at 300, the floor differs."""
    findings = analyse(read_runs(document_of(TOKENS)))
    assert findings.oracle_arms == ("K=2", "K=0")
    assert findings.floor_arms == ("K=2", "none")
    assert findings.offline_table == {1: "K=2", 8: "K=0"}


def test_ratios_compare_runs_of_one_repeat() -> None:
    """Oracle: 100 + 200 and 100 + 220 tokens; goodput: 300 and 330."""
    goodput = analyse(read_runs(document_of(TOKENS))).arm("goodput")
    assert goodput.of_oracle.values == pytest.approx((300 / 300, 330 / 320))
    assert goodput.of_oracle_by_phase.values == pytest.approx(
        ((90 / 100 + 210 / 200) / 2, (110 / 100 + 220 / 220) / 2)
    )
    # 240 and 280 tokens with K=0, 200 and 220 with K=2.
    assert goodput.of_best_single.values == pytest.approx((300 / 240, 330 / 280))
    assert goodput.of_table is not None
    assert goodput.of_table.values == pytest.approx((1.0, 330 / 320))
    assert goodput.worst_phase.phase == "phase 1"
    assert goodput.worst_phase.of_floor.values == pytest.approx((210 / 300, 220 / 300))


def test_only_complete_repeats_count() -> None:
    """K=0 lacks the second repeat."""
    document = document_of({"K=0": [[10, 10]], "goodput": [[10, 20], [0, 0]]})
    assert read_runs(document).num_repeats == 1
    del document["runs"][0]
    with pytest.raises(ValueError, match="no repeat is complete"):
        read_runs(document)


def test_without_a_fixed_length_there_is_no_oracle() -> None:
    with pytest.raises(ValueError, match="no fixed length"):
        analyse(read_runs(document_of({"goodput": [[1, 1]]})))


def test_an_estimate_has_the_mean_and_the_range_of_all_repeats() -> None:
    """Not an interval computed from them, which would be narrower."""
    found = estimate([0.9, 1.0, 1.1, 1.4])
    assert found.mean == pytest.approx(1.1)
    assert (found.lowest, found.highest) == (0.9, 1.4)
    assert render_percent(found) == "110.0% (90.0% to 140.0%)"
    assert not estimate([0.9]).has_range


@pytest.mark.parametrize(
    ("lowest", "highest", "verdict"),
    [
        (0.975, 0.99, Verdict.MET),
        (0.96, 0.99, Verdict.LIKELY),
        (0.95, 0.975, Verdict.SHORT),
        (0.94, 0.96, Verdict.MISSED),
    ],
)
def test_a_verdict_says_whether_every_repeat_meets_the_target(
    lowest: float, highest: float, verdict: Verdict
) -> None:
    """Against a target of 0.97."""
    assert judge(estimate([lowest, highest]), 0.97) is verdict


def test_one_repeat_gives_no_verdict() -> None:
    assert judge(estimate([2.0]), 0.97) is Verdict.SINGLE


def test_adaptation_is_measured_in_seconds_and_in_steps_of_the_arm() -> None:
    """Goodput produces nothing in the first 0.5 s of phase 1, then as much as K=0.

    6 of 8 buckets of 10 tokens. A window of four buckets from bucket 2 on has all of the oracle's;
    from bucket 1 on only three quarters. 0.5 s are 5 steps.
    """
    document = document_of({"K=0": [[80, 80]], "goodput": [[80, 60]]})
    document["runs"][1]["phases"][1]["bucket_tokens"] = [0, 0, 10, 10, 10, 10, 10, 10]
    measured = read_runs(document)
    first, second = adaptations(measured, "goodput", ("K=0", "K=0"))
    assert (first.near_best_s, first.near_best_steps) == (0.0, 0.0)
    assert second.near_best_s == 0.5
    assert second.near_best_steps == pytest.approx(5.0)
    assert second.near_itself_s == 0.5
    assert second.oracle_near_itself_s == 0.0
    assert second.steps_per_bucket == pytest.approx(2.5)


def test_an_arm_that_falls_back_later_has_not_adapted() -> None:
    """The first window equals the best, the rest of the phase does not."""
    measured = read_runs(document_of({"K=0": [[80, 80]], "goodput": [[80, 80]]}))
    best = measured.bucket_tokens["K=0"][0, 0]
    mine = best.copy()
    mine[4:] = 0.0
    assert buckets_to_near_best(mine, best) is None
