"""The measured table: between its entries, beyond them, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import msgspec
import pytest

from paceline.foundation.capacity.cost_table import LEAST_STEP_S, CostTable, at

TABLE = CostTable(
    sizes=(1, 3),
    lengths=(0, 2),
    verify_s=((0.02, 0.03), (0.04, 0.09)),
    draft_s=((0.0, 0.01), (0.0, 0.03)),
    context_tokens=100,
    context_s=1e-6,
    draft_context_s=5e-7,
)


def test_two_requests_cost_the_mean_of_one_and_three() -> None:
    """And one token the mean of none and two."""
    costs = TABLE.load(2)
    assert costs.plain_s == pytest.approx(0.03)
    assert costs.verify_s == pytest.approx([0.0, 0.015, 0.03])
    assert costs.draft_s == pytest.approx([0.0, 0.01, 0.02])


def test_a_step_verifies_and_drafts() -> None:
    """Three tokens of two requests, 1.5 each: 0.0525; one pass: 0.01."""
    assert TABLE.step_s(2, verified_tokens=3, draft_length=1) == pytest.approx(0.0625)
    assert TABLE.step_s(2, verified_tokens=3, draft_length=0) == pytest.approx(0.0525)


def test_the_last_segment_continues_beyond_the_last_size_and_length() -> None:
    """One more request costs 0.01 without drafts and 0.03 with two each."""
    assert TABLE.load(5).plain_s == pytest.approx(0.06)
    assert TABLE.load(5).verify_s == pytest.approx([0.0, 0.045, 0.09])
    assert at([0.02, 0.025, 0.03], 4) == pytest.approx(0.04)
    assert TABLE.step_s(1, verified_tokens=4, draft_length=4) == pytest.approx(0.04 + 0.02)


def test_a_last_segment_that_falls_by_noise_is_level_beyond() -> None:
    """Else 500 prompt tokens would cost less than nothing."""
    noisy = replace(TABLE, sizes=(1, 2), verify_s=((0.05, 0.04), (0.04, 0.03)))
    costs = noisy.load(1000)
    assert (costs.plain_s, *costs.verify_s) == pytest.approx((0.04, 0.0, -0.005, -0.01))
    assert costs.step_s(1000 * 500, 0) == pytest.approx(0.03)


def test_fewer_requests_than_measured_cost_as_the_least_measured() -> None:
    costs = replace(TABLE, sizes=(4, 8)).load(1)
    assert (costs.plain_s, *costs.verify_s) == pytest.approx((0.02, 0.0, 0.005, 0.01))


def test_one_size_and_one_length_are_a_table() -> None:
    table = CostTable((8,), (0,), ((0.02,),), ((0.0,),))
    assert table.step_s(1, verified_tokens=5, draft_length=3) == 0.02
    assert table.step_s(64, verified_tokens=0, draft_length=0) == 0.02


def test_context_beyond_the_measured_one_costs_in_every_pass() -> None:
    """Two requests were measured with 200 tokens; 1,000 more cost 1 ms, and 0.5 ms per draft."""
    context: dict[str, Any] = {"context_tokens": 1200}
    plain_s = TABLE.step_s(2, verified_tokens=0, draft_length=0)
    drafting_s = TABLE.step_s(2, verified_tokens=0, draft_length=2)
    assert TABLE.step_s(2, verified_tokens=0, draft_length=0, **context) - plain_s == (
        pytest.approx(0.001)
    )
    assert TABLE.step_s(2, verified_tokens=0, draft_length=2, **context) - drafting_s == (
        pytest.approx(0.002)
    )


def test_factors_apply_to_the_whole_to_verifying_and_to_drafting() -> None:
    """Two requests: 30 ms and 2 more, 30 ms for two tokens of each, 20 ms and 1 ms a pass."""
    changed = TABLE.load(2).changed(plain_s=0.002, pass_s=0.001, factors=(2.0, 3.0, 5.0))
    assert changed.plain_s == pytest.approx(2 * 0.032)
    assert changed.step_s(4, 2) == pytest.approx(2 * (0.032 + 3 * 0.03 + 5 * (0.02 + 2 * 0.001)))


def test_no_step_takes_less_than_no_time() -> None:
    free = replace(TABLE, verify_s=((0.0, 0.0),) * 2, draft_s=((0.0, 0.0),) * 2)
    assert free.step_s(1, verified_tokens=0, draft_length=2, context_tokens=0) == LEAST_STEP_S


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": ()}, r"sizes is \(\); it must be ascending, with one entry or more"),
        ({"sizes": (3, 1)}, r"sizes is \(3, 1\); it must be ascending"),
        ({"lengths": (0, 0)}, r"lengths is \(0, 0\); it must be ascending"),
        ({"lengths": (0, 2.0)}, r"lengths is \(0, 2.0\); it must have whole numbers"),
        ({"sizes": (0, 3)}, "sizes begin with 0 and lengths with 0; sizes must be at least 1"),
        ({"lengths": (1, 2)}, "sizes begin with 1 and lengths with 1"),
        ({"verify_s": ((0.02, 0.03),)}, r"verify_s must have shape \(2, 2\)"),
        ({"draft_s": ((0.0,), (0.0,))}, r"draft_s must have shape \(2, 2\)"),
        ({"draft_s": ((0.0, -0.1), (0.0, 0.1))}, "draft_s is .*; each entry must be finite and"),
        ({"verify_s": ((0.0, float("nan")), (0.0, 0.1))}, "verify_s is .*; each entry must be"),
        ({"context_s": float("inf")}, "context_s is inf; it must be finite and not negative"),
        ({"context_tokens": -1}, "context_tokens is -1; it must be finite and not negative"),
        ({"draft_context_s": -1e-9}, "draft_context_s is -1e-09; it must be finite"),
    ],
)
def test_an_impossible_table_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TABLE, **changes)


def test_a_table_comes_back_from_json() -> None:
    document = json.loads(json.dumps(asdict(TABLE)))
    assert msgspec.convert(document, CostTable) == TABLE


@pytest.mark.parametrize("document", [{}, {"sizes": 3}, asdict(TABLE) | {"sizes": "13"}])
def test_another_document_is_no_table(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sizes"):
        msgspec.convert(document, CostTable)
