"""The table followed online: what each step teaches about the lengths in use and the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paceline.foundation.capacity.cost_table import LEAST_STEP_S, CostTable
from paceline.runtime.governor.contract.samples import ordinary_sample
from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.runtime.governor.values import StepSample

MAX = 8
LENGTHS = tuple(range(MAX + 1))
WIDTHS = list(LENGTHS)


def table(*, verify: float = 1.0, draft: float = 1.0) -> CostTable:
    """20 ms a step, 1 ms per request and token verified, 2 ms a draft pass, times factors."""
    return CostTable(
        (1, 16),
        LENGTHS,
        tuple(tuple(0.02 + verify * 0.001 * n * length for length in LENGTHS) for n in (1, 16)),
        (tuple(draft * 0.002 * length for length in LENGTHS),) * 2,
    )


def step(truth: CostTable, length: int, *, slower: float = 1.0, **changes: Any) -> StepSample:
    """Four requests at this length, verified and drafted, with its true duration."""
    seconds = truth.step_s(4, verified_tokens=4 * length, draft_length=length)
    fields: dict[str, Any] = {
        "requested_draft_length": length,
        "drafted": (length,) * 4,
        "accepted": (0,) * 4,
        "verified_draft_tokens": 4 * length,
        "draft_length": length,
        "context_tokens": 0,
        "duration_s": slower * seconds,
    }
    return ordinary_sample(**(fields | changes))


def lengths_s(model: CostModel, context_tokens: int = 0) -> list[float]:
    """Steps of four requests at each length, verified and drafted."""
    costs = model.load(4, context_tokens)
    return [costs.step_s(4 * length, length) for length in LENGTHS]


def over_truth(model: CostModel, truth: CostTable) -> np.ndarray:
    """What the model predicts at four requests over the truth, at each length."""
    true_s = [truth.step_s(4, verified_tokens=4 * k, draft_length=k) for k in LENGTHS]
    ratios: np.ndarray = np.array(lengths_s(model)) / true_s
    return ratios


def test_before_the_first_step_predictions_are_the_table() -> None:
    model = CostModel(table(), MAX)
    assert over_truth(model, table()) == pytest.approx(1.0)
    assert model.has_unit


def test_a_slower_machine_changes_all_lengths_alike() -> None:
    """Its clock fell; only length 2 is in use."""
    model = CostModel(table(), MAX)
    for _ in range(30):
        model.observe(step(table(), 2, slower=1.5))
    assert over_truth(model, table()) == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize("truth", [table(verify=1.5), table(draft=1.5), table(draft=0.6)])
def test_a_wrong_proportion_is_learned_for_lengths_that_are_not_in_use(truth: CostTable) -> None:
    """From steps at lengths 1 and 3, the error at 8 shrinks to less than a half."""
    model = CostModel(table(), MAX)
    wrong = over_truth(model, truth)
    for _ in range(300):
        for length in (1, 3):
            model.observe(step(truth, length))
    learned = over_truth(model, truth)
    assert abs(learned[8] / learned[0] - 1.0) < abs(wrong[8] / wrong[0] - 1.0) / 2.0


def test_a_stalled_step_changes_predictions_by_less_than_a_tenth() -> None:
    """It took a hundred times as long."""
    model = CostModel(table(), MAX)
    for _ in range(100):
        model.observe(step(table(), 2))
    model.observe(step(table(), 2, slower=100.0))
    assert over_truth(model, table()).max() < 1.1


@pytest.mark.parametrize(
    "changes",
    [
        {"prefill_tokens": 1},
        {"is_clean": False},
        {"duration_s": None},
        {"duration_s": 0.0},
        {"num_requests": 0, "drafted": (), "accepted": (), "verified_draft_tokens": 0},
    ],
)
def test_some_steps_teach_nothing(changes: dict[str, Any]) -> None:
    model = CostModel(table(), MAX)
    model.observe(step(table(), 2, slower=3.0, **changes))
    assert over_truth(model, table()) == pytest.approx(1.0)


def test_without_a_table_the_unit_comes_from_the_first_step() -> None:
    """A step of 50 ms predicts itself, and the proportions stay within 2 %."""
    model = CostModel(None, MAX)
    assert not model.has_unit
    before = np.array(lengths_s(model))
    first = step(table(), 2, duration_s=0.05)
    model.observe(first)
    after = np.array(lengths_s(model))
    assert model.has_unit
    assert after[2] == pytest.approx(0.05, rel=0.001)
    assert after / after[2] == pytest.approx(before / before[2], rel=0.02)


def test_without_a_table_proportions_are_learned_in_a_hundred_steps() -> None:
    """Within 5 % at the lengths up to the longest in use."""
    model = CostModel(None, MAX)
    for length in (0, 2, 4, 1) * 25:
        model.observe(step(table(), length))
    assert over_truth(model, table())[:5] == pytest.approx(1.0, rel=0.05)


def test_hours_at_one_length_do_not_make_the_next_steps_decide() -> None:
    """20,000 noisy steps at length 2, then 20 at length 4: the proportions are still within 5 %."""
    model, random = CostModel(table(), MAX), np.random.default_rng(0)
    for length in [2] * 20_000 + [4] * 20:
        model.observe(step(table(), length, slower=float(np.exp(0.15 * random.normal()))))
    ratios = over_truth(model, table())
    assert ratios / ratios[0] == pytest.approx(1.0, rel=0.05)


def test_parts_of_a_step_add_up() -> None:
    """Verifying 12 tokens of 4 requests takes 12 ms, 3 passes 6 ms; context 0.1 us a token each."""
    deep = replace(table(), context_tokens=0, context_s=1e-7, draft_context_s=1e-7)
    model = CostModel(deep, MAX)
    assert model.load(4, 0).step_s(12, 3) == pytest.approx(0.038)
    assert model.load(4, 0).step_s(0, 3) == pytest.approx(0.026)
    assert model.load(4, 10_000).step_s(12, 3) == pytest.approx(0.038 + 0.001 * 4)
    assert model.load(4, 10_000).draft_s[:3] == pytest.approx([0.0, 0.003, 0.006])
    assert lengths_s(model, 10_000)[1] == pytest.approx(0.02 + 0.004 + 0.002 + 0.002)


def test_a_context_far_below_the_measured_one_leaves_a_positive_time() -> None:
    """The table's slope over the context is too steep: 4 * 1,000 tokens less, 0.1 ms each."""
    steep = replace(table(), context_tokens=1000, context_s=1e-4, draft_context_s=1e-4)
    model = CostModel(steep, MAX)
    for _ in range(50):
        model.observe(step(table(), 2))
    seconds = lengths_s(model)
    assert min(seconds) >= LEAST_STEP_S * 1e-3
    assert np.isfinite(seconds).all()
    assert min(model.load(4, 0).draft_s) >= 0.0


def test_verifying_anything_may_cost_more_than_a_price_per_token() -> None:
    """0 tokens 20 ms, one 25, two 26: the rejection sampler takes 4 ms."""
    rows = ((0.020, 0.025, 0.026),)
    model = CostModel(CostTable((1,), (0, 1, 2), rows, ((0.0,) * 3,)), 2)
    assert model.load(1, 0).first_verified_s == pytest.approx(0.004)
    assert CostModel(table(), MAX).load(4, 0).first_verified_s == pytest.approx(0.0)
