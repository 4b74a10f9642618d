"""Acceptance is estimated from verdicts whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.workbench.plan.replay.acceptance import (
    Verdicts,
    draw_categories,
    fit_categories,
    resample,
    verdicts_by_category,
)
from unit.recording.lines import request

RANDOM_SEED = 4


def drafts(
    hazards: tuple[float, ...], spread: float, num_requests: int, num_drafts: int
) -> Verdicts:
    """Verdicts of requests that each have a quality of their own."""
    random = np.random.default_rng(RANDOM_SEED)
    logits = np.log(np.array(hazards) / (1 - np.array(hazards)))
    tried = np.zeros((num_requests, len(hazards)))
    accepted = np.zeros_like(tried)
    for row in range(num_requests):
        chances = 1 / (1 + np.exp(-(logits + spread * random.standard_normal())))
        hits = random.random((num_drafts, len(hazards))) < chances
        reached = np.cumprod(hits, axis=1)
        accepted[row] = reached.sum(axis=0)
        tried[row] = np.concatenate([[num_drafts], accepted[row][:-1]])
    return Verdicts(tried, accepted, np.full(num_requests, float(num_drafts)))


@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_hazards_and_spread_are_found(spread: float) -> None:
    """400 requests with 60 drafts each."""
    fit = fit_categories({"a": drafts((0.8, 0.6, 0.7), spread, 400, 60)}, 3)["a"]
    assert fit.hazards == pytest.approx((0.8, 0.6, 0.7), abs=0.025)
    assert fit.spread == pytest.approx(spread, abs=0.12)
    assert fit.match_fraction == 1.0


def test_deep_positions_are_not_taken_for_those_of_easy_requests() -> None:
    """Only easy requests reach position 4: the pooled share is higher than the hazard of all."""
    verdicts = drafts((0.5, 0.5, 0.5, 0.5), 1.5, 400, 60)
    pooled = verdicts.accepted.sum(axis=0) / verdicts.tried.sum(axis=0)
    assert pooled[3] > 0.75
    fit = fit_categories({"a": verdicts}, 4)["a"]
    assert fit.hazards[3] == pytest.approx(0.5, abs=0.08)


def test_a_position_that_was_never_tried_continues_the_curve() -> None:
    """Falling by 0.1 in the logit per position."""
    shallow = drafts((0.8, 0.6), 0.0, 200, 50)
    tried = np.pad(shallow.tried, ((0, 0), (0, 3)))
    accepted = np.pad(shallow.accepted, ((0, 0), (0, 3)))
    tried[:, 2:] = 0
    fit = fit_categories({"a": Verdicts(tried, accepted, shallow.asked)}, 5)["a"]
    assert np.diff(fit.logits[1:]) == pytest.approx([-0.1] * 3, abs=0.01)


def drawn_logits(verdicts: Verdicts, depth: int) -> np.ndarray:
    """Of 60 draws, (60, depth)."""
    random = np.random.default_rng(5)
    estimate = fit_categories({"a": verdicts}, depth)
    draws = [draw_categories({"a": verdicts}, depth, estimate, random) for _ in range(60)]
    return np.array([draw["a"].logits for draw in draws])


def test_a_position_that_was_never_tried_is_uncertain() -> None:
    """A step of all categories deviates by 0.25 and that of one from it by 0.15: 0.29 together, and
    0.5 after three. The positions that were tried deviate by their verdicts only: 10,000 at a
    hazard of 0.8 have a standard error of 0.025 in the logit."""
    shallow = drafts((0.8, 0.8), 0.0, 200, 50)
    padded = [np.pad(part, ((0, 0), (0, 3))) for part in (shallow.tried, shallow.accepted)]
    padded[0][:, 2:] = 0
    logits = drawn_logits(Verdicts(padded[0], padded[1], shallow.asked), 5)
    deviations = logits.std(axis=0)
    assert deviations[:2].max() < 0.06
    assert deviations[2] == pytest.approx(0.29, rel=0.3)
    assert deviations[4] == pytest.approx(0.5, rel=0.3)


def test_a_position_that_was_tried_a_few_times_is_between_the_verdicts_and_the_curve() -> None:
    """3 of 20 accepted after a hazard of 0.8: neither 0.15 nor 0.8, and less uncertain than never
    tried."""
    many = drafts((0.8,), 0.0, 200, 50)
    tried, accepted = (np.pad(part, ((0, 0), (0, 1))) for part in (many.tried, many.accepted))
    tried[:20, 1], accepted[:3, 1] = 1, 1
    verdicts = Verdicts(tried, accepted, many.asked)
    assert 0.4 < fit_categories({"a": verdicts}, 2)["a"].hazards[1] < 0.75
    assert 0.1 < drawn_logits(verdicts, 2)[:, 1].std() < 0.29


def test_a_category_continues_its_curve_as_the_others_do() -> None:
    """The others were tried at position 2, where their drafts are much worse; this one was not."""
    first = drafts((0.8,), 0.0, 200, 50)
    tried, accepted = (np.pad(part, ((0, 0), (0, 1))) for part in (first.tried, first.accepted))
    tried[:, 1] = accepted[:, 1] = 0
    others = drafts((0.8, 0.5), 0.0, 400, 50)
    fits = fit_categories({"others": others, "a": Verdicts(tried, accepted, first.asked)}, 2)
    assert fits["a"].hazards[1] == pytest.approx(0.5, abs=0.06)


def test_a_category_with_few_verdicts_is_near_all_together() -> None:
    """Two rejected drafts are no evidence for a hazard of 0."""
    few = Verdicts(np.array([[2.0]]), np.array([[0.0]]), np.array([2.0]))
    fits = fit_categories({"many": drafts((0.8,), 0.0, 200, 50), "few": few}, 1)
    assert fits["few"].hazards[0] > 0.65
    assert fits[""].hazards[0] == pytest.approx(0.8, abs=0.02)


def test_without_verdicts_there_is_the_prior() -> None:
    assert fit_categories({}, 2)[""].hazards == pytest.approx((0.6, 0.575), abs=0.005)


def test_a_search_that_often_finds_nothing_has_a_match_fraction() -> None:
    """Asked 10 times, it offered 4."""
    record = request(asked=10, tried=(4, 2), accepted=(2, 1))
    fit = fit_categories(verdicts_by_category([record], 2), 2)["code"]
    truth = fit.truth(looks_ngrams_up=True)
    assert truth.match_fraction == pytest.approx(0.4)
    assert fit.truth(looks_ngrams_up=False).always_offers


def test_verdicts_are_cut_or_padded_to_the_depth() -> None:
    verdicts = verdicts_by_category([request(), request(asked=0)], 3)["code"]
    assert (verdicts.tried.tolist(), verdicts.num_requests) == ([[3, 2, 0]], 1)


def test_requests_are_drawn_with_replacement() -> None:
    """Whole requests: tried and accepted stay together."""
    verdicts = drafts((0.7,), 1.0, 50, 20)
    drawn = resample({"a": verdicts}, np.random.default_rng(1))["a"]
    rows = {(t, a) for t, a in zip(verdicts.tried[:, 0], verdicts.accepted[:, 0], strict=True)}
    again = list(zip(drawn.tried[:, 0], drawn.accepted[:, 0], strict=True))
    assert len(again) == 50
    assert set(again) <= rows
    assert not np.array_equal(drawn.accepted, verdicts.accepted)
