"""The report of the policy simulator names the best single length and where it wins."""

from __future__ import annotations

from typing import Any

from benchmarks.governor.simulate import best_single, render_report

RATIOS = {
    "of_oracle": 0.97,
    "of_oracle_by_phase": 0.97,
    "of_best_single": 0.95,
    "of_best_single_by_phase": 0.95,
    "of_table": 1.0,
    "of_table_by_phase": 1.0,
    "of_floor_in_worst_phase": 0.9,
    "worst_phase": "hard",
    "slowest_to_adapt_steps": 3,
    "exploring_loss_fraction": 0.001,
}


def cell(profile: str, seed: int, of_best_single: float) -> dict[str, Any]:
    fractions = {"none": 1.1, "K=0": 0.8, "K=2": 0.98, "goodput": 0.99}
    ratios = RATIOS | {"of_best_single": of_best_single}
    return {
        "profile": profile,
        "drafter": "ngram",
        "trace": "mixed",
        "seed": seed,
        "ratios": {"threshold": ratios, "goodput": ratios},
        "comparison": {
            "arms": [
                {"summary": {"arm": arm}, "fraction_of_oracle": fraction}
                for arm, fraction in fractions.items()
            ]
        },
    }


def test_the_best_single_length_is_a_fixed_one() -> None:
    """Neither no speculation nor a policy, although both have more tokens here."""
    assert best_single(cell("p", 0, 1.0)) == "K=2"


def test_the_report_has_ranges_and_says_where_the_best_single_length_wins() -> None:
    document = {
        "seeds": 2,
        "environment": {"paceline": "0.1.0", "date_utc": "today", "command": "c", "commit": "abc"},
        "cells": [
            *(cell("slow", seed, ratio) for seed, ratio in enumerate((0.95, 0.99))),
            *(cell("fast", seed, ratio) for seed, ratio in enumerate((0.99, 1.05))),
        ],
    }
    report = render_report(document)
    assert "mean (lowest to highest) over n = 2 seeds" in report
    assert "commit abc" in report
    assert "| slow, ngram, mixed | 2, 2 | 97.0% (97.0% to 97.0%) |" in report
    assert "97.0% (95.0% to 99.0%)" in report
    lost = "In 1 of 2 cells goodput loses to the best single length: slow, ngram, mixed (97.0%)."
    assert lost in report
