"""The winner's figures: interval, attained share, dollars, advantage over the runner-up."""

from __future__ import annotations

import math

import pytest

from paceline.foundation.results.slo import wilson_interval
from paceline.workbench.tune.search.outcome import ScoringBlocks, conclude
from paceline.workbench.tune.search.trial_book import TrialBook, attained_fraction, surely_misses
from paceline.workbench.tune.values import Cell, Measurement, Purpose, Trial
from unit.tune.simulated import make_problem


def block(good_per_s: float, num_met: int = 50, num_requests: int = 50) -> Measurement:
    return Measurement(good_per_s, good_per_s, 0.0, num_requests, num_met, 0, None, None)


def test_the_finalist_with_the_highest_estimate_that_meets_the_objective_wins() -> None:
    problem = make_problem()
    book = TrialBook(problem)
    fast, slow = problem.cells[0], problem.cells[20]
    for number in range(3):
        book.add(Trial(fast, Purpose.SEARCH, number), block(10.0))
        book.add(Trial(slow, Purpose.SEARCH, number), block(5.0))
    scoring = {
        fast: ScoringBlocks((block(9.0, num_met=40),) * 2),
        slow: ScoringBlocks((block(4.0),) * 2, (block(5.0), block(5.2))),
    }
    outcome = conclude(problem, book, scoring, {}, num_starts=2, why_ended="")
    assert [finalist.cell for finalist in outcome.finalists] == [fast, slow]
    assert [finalist.meets_slo for finalist in outcome.finalists] == [False, True]
    assert outcome.finalists[1].good_requests_per_s == pytest.approx(4.0)
    assert outcome.best_tried is not None
    assert outcome.best_tried.cell == slow
    assert outcome.best_tried.good_requests_per_s == pytest.approx(5.1)
    assert outcome.best_tried.attained_fraction == 1.0
    assert [one.cell for one in outcome.tried] == [fast, slow]
    assert outcome.tried[0].estimate == pytest.approx(10.0, rel=0.02)


def test_the_interval_is_t_times_the_pooled_spread_of_repeated_blocks() -> None:
    problem = make_problem()
    book = TrialBook(problem)
    cell = problem.cells[0]
    for number, log_rate in enumerate((-0.1, 0.1)):
        book.add(Trial(cell, Purpose.SEARCH, number), block(math.exp(log_rate)))
    scoring = {cell: ScoringBlocks((block(1.0),), (block(1.0), block(1.0)))}
    winner = conclude(problem, book, scoring, {}, num_starts=1, why_ended="").best_tried
    assert winner is not None
    # Squares 2 * 0.1 ** 2 over 2 degrees of freedom: sd 0.1; t is 4.30; two held-out blocks.
    half = 4.30 * 0.1 / math.sqrt(2)
    assert winner.good_requests_per_s_ci95 == pytest.approx((math.exp(-half), math.exp(half)))


def test_the_advantage_is_over_the_best_of_the_same_and_of_the_other_servers() -> None:
    problem = make_problem()
    book = TrialBook(problem)
    winner, same, other = problem.cells[0], problem.cells[1], problem.cells[40]
    assert same.restart == winner.restart != other.restart
    for number in range(4):
        for cell, rate in ((winner, 4.0), (same, 3.0), (other, 2.0)):
            book.add(Trial(cell, Purpose.SEARCH, number), block(rate))
    scoring = {winner: ScoringBlocks((block(4.0),), (block(4.0),))}
    outcome = conclude(problem, book, scoring, {}, num_starts=2, why_ended="")
    assert [one.over for one in outcome.advantages] == [same, other]
    assert outcome.advantages[0].relative == pytest.approx(1 / 3, abs=0.05)
    assert outcome.advantages[1].relative == pytest.approx(1.0, abs=0.1)
    for one in outcome.advantages:
        assert one.low < one.relative < one.high


def test_a_cell_misses_surely_only_where_chance_is_no_explanation() -> None:
    assert not surely_misses([], 0.95)
    assert not surely_misses([block(1, num_met=18, num_requests=20)], 0.95)
    assert surely_misses([block(1, num_met=180, num_requests=200)], 0.95)
    assert surely_misses([block(0, num_met=0, num_requests=0)], 0.95)
    assert attained_fraction([block(1, 5, 10), block(1, 20, 20)]) == pytest.approx(25 / 30)


def test_a_cell_that_misses_surely_is_worth_less_than_its_goodput() -> None:
    problem = make_problem()
    book = TrialBook(problem)
    meets, misses = problem.cells[0], problem.cells[1]
    book.add(Trial(meets, Purpose.SEARCH, 0), block(10.0, 100, 100))
    book.add(Trial(misses, Purpose.SEARCH, 0), block(11.0, 70, 100))
    assert book.best_of(meets.restart) == meets


def test_the_attained_intervals_of_the_finalists_hold_at_once_and_the_winners_alone() -> None:
    """Bonferroni for two finalists: the normal quantile of 5 % over 2, two-sided, is 2.2414."""
    problem = make_problem()
    book = TrialBook(problem)
    cells = problem.cells[:2]
    for cell in cells:
        book.add(Trial(cell, Purpose.SEARCH, 0), block(10.0))
    blocks = (block(10.0, num_met=95, num_requests=100),)
    scoring = {cell: ScoringBlocks(blocks, blocks) for cell in cells}
    outcome = conclude(problem, book, scoring, {}, num_starts=1, why_ended="")
    both = [finalist.attained_fraction_ci95 for finalist in outcome.finalists]
    assert both == [pytest.approx(wilson_interval(95, 100, 2.2414), abs=1e-5)] * 2
    assert outcome.best_tried is not None
    alone = wilson_interval(95, 100)
    assert outcome.best_tried.attained_fraction_ci95 == pytest.approx(alone, abs=1e-5)


def test_cells_of_the_problem_are_all_combinations() -> None:
    problem = make_problem()
    assert len(problem.cells) == 96
    assert len(set(problem.cells)) == 96
    assert all(isinstance(cell, Cell) for cell in problem.cells)
