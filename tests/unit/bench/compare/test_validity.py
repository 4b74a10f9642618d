"""A comparison is valid unless one request in a hundred was sent late."""

from __future__ import annotations

import dataclasses

import pytest

from paceline.workbench.bench.compare.config import CompareConfig
from paceline.workbench.bench.compare.contrasts import Round
from paceline.workbench.bench.compare.measure import finish, is_valid, new_comparison
from paceline.workbench.bench.compare.report import render_document
from unit.bench.compare.rounds import make_round


def late_round(late_ms: float, num_late: int) -> Round:
    """4 blocks of 100 requests, of which `num_late` in the first block are late."""
    one = make_round([100.0] * 4)
    delays = [(late_ms,) * num_late + (0.1,) * (100 - num_late), *[(0.1,) * 100] * 3]
    first, second, third, fourth = (
        dataclasses.replace(block, dispatch_delays_ms=ms)
        for block, ms in zip(one.blocks, delays, strict=True)
    )
    return Round((first, second, third, fourth))


@pytest.mark.parametrize(
    ("late_ms", "num_late", "valid"), [(500.0, 3, True), (500.0, 8, False), (20.0, 100, True)]
)
def test_a_rare_stall_does_not_invalidate(late_ms: float, num_late: int, valid: bool) -> None:
    """Of 400 requests, 3 are fewer than one in a hundred, and 8 are more; 25 ms are allowed."""
    comparison = new_comparison(CompareConfig("http://a", "http://b"), ["compare"])
    comparison.campaign.rounds.append(late_round(late_ms, num_late))
    finish(comparison, is_interrupted=False)
    assert is_valid(comparison) is valid
    assert bool(comparison.notes) is not valid
    document = render_document(comparison)
    assert document["is_valid"] is valid
    assert document["blocks"][0]["max_dispatch_delay_ms"] == late_ms
