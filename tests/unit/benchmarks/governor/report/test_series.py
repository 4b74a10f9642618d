"""The curves of the plots, from small runs with known values."""

from __future__ import annotations

import pytest

from benchmarks.governor.report.analysis import analyse
from benchmarks.governor.report.measured import read_runs
from benchmarks.governor.report.series import accepted_stretches, regret, tokens_by_bucket
from unit.benchmarks.governor.documents import document_of

TOKENS = {"K=0": [[80, 40]], "K=2": [[40, 80]], "goodput": [[80, 40]]}


def test_tokens_by_bucket_take_each_phase_from_its_arm() -> None:
    """Eight buckets per phase of 80 tokens each."""
    measured = read_runs(document_of(TOKENS))
    assert tokens_by_bucket(measured, ["K=0", "K=2"]).tolist() == [10.0] * 16


def test_regret_grows_where_the_oracle_has_more_tokens() -> None:
    """Phase 0 equals the oracle; in phase 1 it has 5 tokens more per bucket."""
    measured = read_runs(document_of(TOKENS))
    found = regret(measured, analyse(measured), "goodput")
    assert found[:9].tolist() == [0.0] * 9
    assert found[-1] == 40.0


def test_accepted_fractions_break_where_nothing_was_drafted() -> None:
    samples = {
        "t_s": [0.0, 1.0, 2.0, 3.0, 4.0],
        "drafted_tokens": [0, 10, 10, 20, 30],
        "accepted_tokens": [0, 5, 5, 12, 22],
    }
    assert list(accepted_stretches(samples)) == [
        [(1.0, 0.5)],
        [(3.0, pytest.approx(0.7)), (4.0, 1.0)],
    ]
