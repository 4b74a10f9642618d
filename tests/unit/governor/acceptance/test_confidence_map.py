"""The map from confidence to acceptance, against verdicts drawn from a known one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.runtime.governor.acceptance.confidence_map import ConfidenceMaps, logits_of, sigmoid

FIRST = (1.2, 0.6)


def teach(
    maps: ConfidenceMaps, name: str, truth: tuple[float, float], num_steps: int, seed: int = 0
) -> None:
    """Steps of eight verdicts each, drawn from the true map."""
    random = np.random.default_rng(seed)
    for _ in range(num_steps):
        logits = random.normal(0.5, 1.5, 8)
        chances = sigmoid(truth[0] + truth[1] * logits)
        maps.learn(name, logits, (random.random(8) < chances).astype(float))


def coefficients(maps: ConfidenceMaps, name: str) -> tuple[float, float]:
    return maps.coefficients({name: 1})[name]


def test_log_odds_of_a_probability() -> None:
    """0.8 is four to one."""
    assert logits_of(np.array([0.5, 0.8])) == pytest.approx([0.0, math.log(4.0)])
    assert sigmoid(logits_of(np.array([0.3]))) == pytest.approx([0.3])


def test_log_odds_are_bounded_and_a_number() -> None:
    """NaN is no confidence at all."""
    bound = math.log(1e-5 / (1.0 - 1e-5))
    values = np.array([0.0, -1.0, math.nan, 1.0, math.inf])
    assert logits_of(values) == pytest.approx([bound, bound, bound, -bound, -bound])


@pytest.mark.parametrize("truth", [(-0.5, 1.2), (0.3, 0.2), (1.5, 0.8)])
def test_a_known_map_is_recovered(truth: tuple[float, float]) -> None:
    """600 verdicts in memory: chances within 0.1 at confidences from 0.2 to 0.95."""
    maps = ConfidenceMaps()
    teach(maps, "greedy", truth, 400)
    logits = logits_of(np.array([0.2, 0.5, 0.8, 0.95]))
    intercept, slope = coefficients(maps, "greedy")
    expected = sigmoid(truth[0] + truth[1] * logits)
    assert sigmoid(intercept + slope * logits) == pytest.approx(expected, abs=0.1)


def test_an_old_map_is_forgotten() -> None:
    """After 2,400 verdicts of the other map, e^-4 of the first ones are left."""
    maps, fresh = ConfidenceMaps(), ConfidenceMaps()
    teach(maps, "greedy", (2.0, 1.0), 300)
    teach(maps, "greedy", (-1.0, 0.5), 300, seed=1)
    teach(fresh, "greedy", (-1.0, 0.5), 300, seed=1)
    assert coefficients(maps, "greedy") == pytest.approx(coefficients(fresh, "greedy"), abs=0.1)


def test_a_class_without_verdicts_has_the_first_map() -> None:
    maps = ConfidenceMaps()
    teach(maps, "greedy", (-1.0, 0.5), 50)
    assert coefficients(maps, "sampled") == pytest.approx(FIRST)
    assert maps.coefficients({}) == {}


def test_no_verdicts_teach_nothing() -> None:
    maps = ConfidenceMaps()
    maps.learn("greedy", np.array([]), np.array([]))
    assert coefficients(maps, "greedy") == pytest.approx(FIRST)


def test_a_large_step_counts_as_sixteen_verdicts() -> None:
    """256 equal verdicts move the map as 16 of them do."""
    maps = ConfidenceMaps()
    maps.learn("many", np.full(256, 1.0), np.ones(256))
    maps.learn("few", np.full(16, 1.0), np.ones(16))
    assert coefficients(maps, "many") == pytest.approx(coefficients(maps, "few"))


def test_the_65th_class_and_the_66th_share_a_map() -> None:
    maps = ConfidenceMaps()
    names = [f"class {number}" for number in range(66)]
    found = maps.coefficients(dict.fromkeys(names, 1))
    assert set(found.values()) == {FIRST}
    teach(maps, names[65], (-1.0, 0.5), 50)
    assert coefficients(maps, names[64]) == coefficients(maps, names[65]) != FIRST
    assert coefficients(maps, names[63]) == FIRST


def test_rejected_sure_tokens_never_make_the_map_fall() -> None:
    """Else all sure tokens would be dropped, and none would have a verdict again."""
    maps = ConfidenceMaps()
    for _ in range(8):
        maps.learn("greedy", logits_of(np.array([0.999])), np.zeros(1))
        intercept, slope = coefficients(maps, "greedy")
        assert slope >= 0.05
        assert sigmoid(np.array(intercept + slope * math.log(999.0))) > 0.2


def test_one_verdict_moves_the_map_by_a_bounded_step() -> None:
    maps = ConfidenceMaps()
    maps.learn("greedy", logits_of(np.array([0.999])), np.zeros(1))
    assert coefficients(maps, "greedy") == pytest.approx(FIRST, abs=0.2)
