"""Tier 3 on outcomes with known figures."""

from __future__ import annotations

from paceline.foundation.answer_quality.decisions import Limits, judge_outcomes, pair_outcomes
from paceline.foundation.answer_quality.values import Outcome


def outcomes(*groups: tuple[int, float, float]) -> list[Outcome]:
    """Groups of (number, baseline, candidate), one conversation per prompt."""
    rows = [(baseline, candidate) for num, baseline, candidate in groups for _ in range(num)]
    return [Outcome(f"{n}", *row) for n, row in enumerate(rows)]


def test_equal_answers_on_enough_prompts_prove_the_score() -> None:
    found = judge_outcomes(outcomes((250, 1.0, 1.0), (50, 0.0, 0.0)), Limits())
    assert found.faults == ()
    assert found.lacking == ()
    assert (found.num_prompts, found.num_worse, found.num_better) == (300, 0, 0)


def test_equal_answers_on_few_prompts_prove_nothing() -> None:
    found = judge_outcomes(outcomes((50, 1.0, 1.0)), Limits())
    assert found.faults == ()
    assert "give more prompts" in found.lacking[0]


def test_a_clear_loss_is_a_fault() -> None:
    found = judge_outcomes(outcomes((80, 1.0, 1.0), (20, 1.0, 0.0)), Limits())
    assert found.faults == ("its task score is 0.200 lower (limit 0.02)",)
    assert (found.num_worse, found.baseline_score, found.candidate_score) == (20, 1.0, 0.8)


def test_gains_count_against_losses() -> None:
    found = judge_outcomes(outcomes((80, 1.0, 1.0), (20, 1.0, 0.0), (20, 0.0, 1.0)), Limits())
    assert found.faults == ()
    assert found.loss.value == 0.0


def test_prompts_that_the_baseline_fails_prove_nothing() -> None:
    found = judge_outcomes(outcomes((290, 0.0, 0.0), (10, 1.0, 1.0)), Limits())
    assert "prompts that it fails show no loss" in found.lacking[0]


def test_prompts_of_one_conversation_count_once() -> None:
    same = [Outcome("one", 1.0, 0.0) for _ in range(100)]
    found = judge_outcomes(same, Limits())
    assert found.num_conversations == 1
    assert found.faults == ()


def test_an_answer_that_the_checker_cannot_read_is_a_loss() -> None:
    found = pair_outcomes({"a": ("one", 1.0), "b": ("two", 0.5)}, {"a": None, "b": 0.5})
    assert found == [Outcome("one", 1.0, 0.0), Outcome("two", 0.5, 0.5)]


def test_a_prompt_without_a_score_of_the_baseline_is_left_out() -> None:
    assert pair_outcomes({"a": ("one", None)}, {"a": 1.0}) == []
