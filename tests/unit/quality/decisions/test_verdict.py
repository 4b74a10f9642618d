"""The verdict from the tiers."""

from __future__ import annotations

import dataclasses

import pytest

from paceline.foundation.answer_quality.decisions import (
    Fidelity,
    Limits,
    OutcomeFigures,
    Verdict,
    decide,
    judge_fidelity,
    judge_outcomes,
)
from paceline.foundation.answer_quality.values import Outcome
from unit.quality.made import make_divergence, make_texts


@pytest.fixture
def fidelity() -> Fidelity:
    texts = make_texts(30)
    same = make_divergence(texts, lambda _: 1e-3)
    return judge_fidelity(texts, same, same, Limits(perplexity_increase=0.2))


@pytest.fixture
def outcomes() -> OutcomeFigures:
    return judge_outcomes([Outcome(f"{n}", 1.0, 1.0) for n in range(300)], Limits())


def test_only_all_three_tiers_approve(fidelity: Fidelity, outcomes: OutcomeFigures) -> None:
    found = decide((), fidelity, outcomes)
    assert found.verdict is Verdict.APPROVED
    assert found.tier is None


def test_without_task_scores_nothing_is_approved(fidelity: Fidelity) -> None:
    found = decide((), fidelity, None)
    assert found.verdict is Verdict.UNDECIDED
    assert "add `reference` to the prompts" in found.reasons[0]


def test_a_fault_of_any_tier_rejects(fidelity: Fidelity, outcomes: OutcomeFigures) -> None:
    faulty = [
        (("broken file",), None, None),
        ((), dataclasses.replace(fidelity, faults=("far off",)), outcomes),
        ((), fidelity, dataclasses.replace(outcomes, faults=("fails tasks",))),
    ]
    assert [decide(*one).tier for one in faulty] == [1, 2, 3]
    assert {decide(*one).verdict for one in faulty} == {Verdict.REJECTED}


def test_a_format_that_is_not_computed_is_no_fault() -> None:
    found = decide((), None, None, "stored with zero points")
    assert (found.verdict, found.reasons) == (Verdict.UNDECIDED, ("stored with zero points",))


def test_what_is_lacking_leaves_it_undecided(fidelity: Fidelity, outcomes: OutcomeFigures) -> None:
    found = decide((), dataclasses.replace(fidelity, lacking=("more prompts",)), outcomes)
    assert (found.verdict, found.reasons) == (Verdict.UNDECIDED, ("more prompts",))


@pytest.mark.parametrize("limits", [{"divergence_ratio": 0.9}, {"score_loss": 0.0}])
def test_limits_that_allow_nothing_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="it must be"):
        Limits(**limits)
