"""The benchmark of a trained draft: what passes, and ratios within each round."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.draft_training import summarize


def document(*, is_promoted: bool = True, difference: float = 0.01) -> dict[str, Any]:
    held_out = {"present": {"acceptance_rate": 0.1}, "candidate": {"acceptance_rate": 0.7}}
    rates = {"none": (100, 50), "none#again": (90, 55), "start": (100, 50), "bundled": (150, 75),
             "trained": (300, 100)}  # fmt: skip
    return {
        "training": {
            "provenance": {"promoted": is_promoted, "held_out": {"overall": held_out}},
        },
        "served": [{"comparison": {"figures": [{"difference": -difference}, {"difference": 0.0}]}}],
        "turns": [
            {"round": turn, "server": name, "temperature": 0.0, "output_tokens_per_s": rate[turn]}
            for name, rate in rates.items()
            for turn in (0, 1)
        ],
    }  # fmt: skip


def test_ratios_are_to_the_server_without_drafts_of_the_same_round() -> None:
    summary = summarize(document())
    assert summary["held_out"] == {"start": 0.1, "trained": 0.7}
    ratio = summary["ratios"]["trained at temperature 0"]
    assert (ratio["median"], ratio["min"], ratio["max"], ratio["n"]) == (2.5, 2.0, 3.0, 2)
    assert "trained at temperature 1" not in summary["ratios"], "no turn of it yet"


@pytest.mark.parametrize(
    ("changed", "is_passed"),
    [({}, True), ({"is_promoted": False}, False), ({"difference": 0.03}, False)],
)
def test_promotion_and_the_served_acceptance_decide(changed: Any, is_passed: bool) -> None:
    assert summarize(document(**changed))["is_passed"] is is_passed
