"""The summary of a run: ratios of turns, and what the doctor stated beside the truth."""

from __future__ import annotations

import pytest

from benchmarks.doctor_losses import ARMS, CONTROL, DRAFTS, FIXED, HELD, WITHOUT, summarise


def visit(*findings: tuple[str, float]) -> dict[str, object]:
    found = [{"id": name, "summary": "s", "cost": {"share": share}} for name, share in findings]
    return {"options": "--probe", "seconds": 61.0, "diagnosis": {"findings": found}}


def turn(**rates: float) -> dict[str, float]:
    return {**{arm.name: 100.0 for arm in ARMS}, **rates}


def test_the_stated_loss_is_compared_with_the_measured_one() -> None:
    summary = summarise(
        {
            "before": [turn(**{DRAFTS.name: 60.0}), turn(**{DRAFTS.name: 60.0})],
            "after": [turn(**{FIXED.name: 150.0})] * 2,
            "doctor": [
                visit(("kv-cache-full", 0.9), ("speculation-loses", 0.3)),
                visit(("kv-cache-full", 0.9)),
            ],
        }
    )
    assert summary["drafts_over_none"]["mean"] == pytest.approx(0.6)
    assert summary["control"]["mean"] == pytest.approx(1.0)
    found, silent = summary["doctor"]
    assert (found["stated_share"], found["true_share"]) == (0.3, 0.4)
    assert found["stated_over_true"] == 0.75
    assert (silent["stated_share"], silent["stated_over_true"]) == (None, None)
    assert summary["fixed_over_held_before"]["mean"] == pytest.approx(1.0)
    assert summary["fixed_over_held_after"]["mean"] == pytest.approx(1.5)


def test_all_servers_have_names_of_their_own() -> None:
    names = [arm.name for arm in (WITHOUT, CONTROL, DRAFTS, HELD, FIXED)]
    assert len(set(names)) == 5
