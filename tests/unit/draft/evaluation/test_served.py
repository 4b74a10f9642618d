"""Offline figures beside the counters in a report of `bench run`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.models.acceptance import AcceptanceFigures, Estimate
from paceline.foundation.models.values import DraftError, Sampling
from paceline.workbench.draft.evaluation.served import (
    check_report,
    compare_with_served,
    read_report,
)


def exact(value: float) -> Estimate:
    return Estimate(value, value, value)


FIGURES = {
    Sampling(0.0): AcceptanceFigures(
        acceptance_rate=exact(0.6),
        acceptance_length=exact(2.2),
        accepted_per_position_fraction=(exact(0.7), exact(0.5)),
        conditional_per_position=(exact(0.7), exact(0.7)),
        token_acceptance=exact(0.8),
    )
}


def report(
    positions: tuple[float, ...] | None = (0.71, 0.49), temperature: float = 0.0, drafts: int = 100,
    drafted: int = 200, rate: float = 0.6,
) -> dict[str, Any]:  # fmt: skip
    return {
        "kind": "paceline bench run",
        "config": {"temperature": temperature},
        "speculation": {
            "acceptance_rate": rate,
            "num_drafts": drafts,
            "drafted_tokens": drafted,
            "accepted_per_position_fraction": positions,
            "note": "nothing was drafted in the window",
        },
    }


def test_figures_within_the_tolerance_are_equal() -> None:
    found = compare_with_served(report(), FIGURES, 2)
    assert found.is_equal
    assert [(f.name, f.offline, f.served) for f in found.figures] == [
        ("acceptance_rate", 0.6, 0.6),
        ("accepted_at_position_1", 0.7, 0.71),
        ("accepted_at_position_2", 0.5, 0.49),
    ]
    assert found.figures[1].difference == pytest.approx(0.01)


def test_one_position_outside_the_tolerance_is_not_equal() -> None:
    assert not compare_with_served(report(positions=(0.7, 0.53)), FIGURES, 2).is_equal


def test_a_difference_that_chance_explains_is_undecided() -> None:
    wide = Estimate(0.7, 0.67, 0.73)  # ±0.03, so 0.02 + 1.41 * 0.03 = 0.062 may be chance
    figures = {
        sampling: replace(one, accepted_per_position_fraction=(wide, exact(0.5)))
        for sampling, one in FIGURES.items()
    }
    chance = compare_with_served(report(positions=(0.76, 0.5)), figures, 2)
    assert (chance.is_equal, chance.is_undecided) == (False, True)
    too_far = compare_with_served(report(positions=(0.77, 0.5)), figures, 2)
    assert (too_far.is_equal, too_far.is_undecided) == (False, False)
    close = compare_with_served(report(positions=(0.715, 0.5)), figures, 2)
    assert (close.is_equal, close.is_undecided) == (True, False)


@pytest.mark.parametrize(
    ("document", "length", "message"),
    [
        (report(temperature=0.7), 2, r"served at temperature 0\.7 .*measured at 0 .*add --temp"),
        (report() | {"speculation": {"num_drafts": 1}}, 2, "another version: 'accepted_per_pos"),
        (report(drafts=0), 2, "no speculation counters .*nothing was drafted"),
        (report(positions=None), 2, "no speculation counters"),
        (
            report() | {"warnings": [{"id": "other_traffic"}]},
            2,
            "counters .* include other clients",
        ),
        (report(drafted=130), 2, r"drafted 1\.30 tokens per draft.*--policy fixed"),
        (report(), 3, r"drafted 2\.00 tokens per draft, and acceptance is measured at 3"),
    ],
)
def test_reports_that_say_nothing_about_the_figures_are_refused(
    document: dict[str, Any], length: int, message: str
) -> None:
    with pytest.raises(DraftError, match=message):
        compare_with_served(document, FIGURES, length)


def test_a_report_of_another_nucleus_is_refused() -> None:
    """Greedy answers have none."""
    sampled = report(temperature=0.7)
    document = sampled | {"config": sampled["config"] | {"top_p": 0.8}}
    assert check_report(document, [Sampling(0.7, 0, 0.8)], 2).top_p == 0.8
    with pytest.raises(DraftError, match=r"temperature 0\.7 \(top-p 0\.8\).*--top-p 0\.8"):
        check_report(document, [Sampling(0.7)], 2)
    greedy = report() | {"config": report()["config"] | {"top_p": 0.8}}
    assert check_report(greedy, [Sampling(0.0)], 2).is_greedy
    with pytest.raises(DraftError, match=r"; add --temperature 0\.0$"):
        check_report(greedy, [Sampling(0.7, 0, 0.8)], 2)


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"kind": "paceline bench compare"}))
    with pytest.raises(DraftError, match="not a report of paceline bench run"):
        read_report(path)
    path.write_text("{")
    with pytest.raises(DraftError, match="cannot read the report"):
        read_report(path)
