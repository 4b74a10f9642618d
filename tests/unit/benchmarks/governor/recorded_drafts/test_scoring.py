"""The oracle that leaves a run out, and the scores against it."""

from __future__ import annotations

import pytest

from benchmarks.governor.recorded_drafts.scoring import Run, oracle_arms, score_arms

FIXED = ("K=0", "K=2")
RUNS = (
    Run(
        ("easy", "easy+hard"),
        (100, 100),
        {"K=0": (10.0, 20.0), "K=2": (20.0, 10.0), "policy": (20.0, 25.0)},
    ),
    Run(
        ("easy+hard", "easy"),
        (100, 300),
        {"K=0": (10.0, 30.0), "K=2": (20.0, 10.0), "policy": (20.0, 15.0)},
    ),
)


def test_the_oracle_takes_the_length_that_was_best_in_the_other_runs() -> None:
    """In run 1 length 0 wins `easy`; in run 0 length 2 did."""
    assert oracle_arms(RUNS, 1, FIXED) == {"easy+hard": "K=0", "easy": "K=2"}
    assert oracle_arms(RUNS, 0, FIXED) == {"easy": "K=0", "easy+hard": "K=2"}


def test_a_score_is_the_oracle_s_time_over_the_arm_s() -> None:
    """Run 0: the oracle takes 100 / 10 + 100 / 10 = 20 s, the policy 5 + 4 = 9 s. Run 1: 100 / 10 +
    300 / 10 = 40 s and 5 + 20 = 25 s."""
    score = score_arms(RUNS, FIXED)["policy"]
    assert score.of_oracle == pytest.approx((20 / 9 + 40 / 25) / 2)
    assert score.of_phases["easy"] == pytest.approx((20 / 10 + 15 / 10) / 2)
    assert score.of_mixed == pytest.approx((25 / 10 + 20 / 10) / 2)
    assert score.worst_phase == "easy"


def test_phases_of_one_name_count_together() -> None:
    """The second `easy` of the other run decides: 5 + 5 against 1 + 20."""
    other = Run(("easy", "easy"), (1, 1), {"K=0": (5.0, 5.0), "K=2": (1.0, 20.0)})
    run = Run(("easy",), (1,), {"K=0": (5.0,), "K=2": (1.0,)})
    assert oracle_arms((run, other), 0, FIXED) == {"easy": "K=2"}


def test_one_run_has_no_oracle() -> None:
    with pytest.raises(ValueError, match="needs two runs"):
        oracle_arms(RUNS[:1], 0, FIXED)
