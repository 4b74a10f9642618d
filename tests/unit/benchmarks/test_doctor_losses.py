"""The summary of a run: ratios of turns, and what the doctor stated beside the truth."""

from __future__ import annotations

import pytest

from benchmarks.doctor_losses import (
    ARMS,
    CONTROL,
    DRAFTS,
    FIXED,
    HELD,
    OFF,
    WITHOUT,
    judge,
    summarise,
)


def visit(*findings: tuple[str, float]) -> dict[str, object]:
    found = [{"id": name, "summary": "s", "cost": {"share": share}} for name, share in findings]
    return {"options": "--probe", "seconds": 61.0, "diagnosis": {"findings": found}}


def turn(**rates: float) -> dict[str, float]:
    """An off server at 180, the others at 100; 0.5 drafted tokens per token on the fixed one."""
    held = {arm.name: 100.0 for arm in ARMS}
    return {**held, OFF.name: 180.0, f"{FIXED.name} drafted": 0.5, **rates}


def test_the_stated_loss_is_compared_with_the_measured_one() -> None:
    summary = summarise(
        {
            "before": [turn(**{DRAFTS.name: 60.0}), turn(**{DRAFTS.name: 60.0})],
            "after": [turn(**{FIXED.name: 150.0})] * 2,
            "doctor": [
                visit(("kv-cache-full", 0.9), ("speculation-loses", 0.3)),
                visit(("kv-cache-full", 0.9)),
            ],
            "fix": {"diagnosis": {"fix": {"is_kept": True}}},
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
    assert summary["fix_factor"] == pytest.approx(1.5)
    assert summary["won_back_of_vllms_loss"] == pytest.approx(0.75)  # of 1 / 0.6 - 1
    assert summary["off_over_held"]["mean"] == pytest.approx(1.8)
    assert summary["won_back_of_possible"] == pytest.approx(0.625)  # of 1.8 - 1
    assert summary["fixed_over_off_after"]["mean"] == pytest.approx(1.5 / 1.8, rel=1e-3)
    assert summary["drafted_per_token_after"] == 0.5
    assert judge(summary) == {
        "found_in_time": False, "stated_within_a_fifth": False, "won_back": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({}, set()),
        ({"seconds": 91.0}, {"found_in_time"}),
        ({"stated_over_true": 0.79}, {"stated_within_a_fifth"}),
        ({"stated_over_true": 1.21}, {"stated_within_a_fifth"}),
        ({"stated_share": None}, {"found_in_time", "stated_within_a_fifth"}),
        ({"fix_is_kept": False}, {"won_back"}),
        ({"won_back_of_possible": 0.79}, {"won_back"}),
    ],
)
def test_each_part_of_the_requirement_is_judged(
    changes: dict[str, float | None], failed: set[str]
) -> None:
    probe = {"seconds": 89.0, "stated_share": 0.4, "stated_over_true": 1.0}
    summary = {"fix_is_kept": True, "won_back_of_possible": 0.9}
    for part in (probe, summary):
        part.update({key: value for key, value in changes.items() if key in part})
    verdict = judge({"doctor": [{"seconds": 0.0, "stated_share": None}, probe], **summary})
    assert {key for key, holds in verdict.items() if not holds} == failed


def test_all_servers_have_names_of_their_own() -> None:
    names = [arm.name for arm in (WITHOUT, CONTROL, DRAFTS, HELD, FIXED, OFF)]
    assert len(set(names)) == 6
