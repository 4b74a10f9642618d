"""Forward passes against times computed from their formula in the docstrings."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest

from paceline.foundation.capacity import roofline
from paceline.foundation.capacity.roofline import HardwareFigures, ModelFigures, forward_pass_s

MODEL = ModelFigures(params=1e9, num_layers=10, hidden_size=1000, kv_bytes_per_token=1e4)
HARDWARE = HardwareFigures(
    tensor_parallel=1,
    bandwidth_bytes_per_s=2e12,
    bandwidth_fraction=0.5,
    flops_per_s=4e14,
    flops_fraction=0.5,
    all_reduce_latency_s=1e-5,
    all_reduce_bytes_per_s=1e11,
)


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(roofline).failed == 0


def test_context_is_read_from_the_kv_cache() -> None:
    """100,000 tokens of 10 kB at 1 TB/s take 1 ms, beside 2 ms for the weights."""
    assert forward_pass_s(MODEL, HARDWARE, 10, 100_000) == pytest.approx(0.003)


def test_eight_gpus_share_the_work_and_pay_for_their_links() -> None:
    """An eighth of 2 ms, and 20 all-reduces of 10 us and 100 * 2000 bytes at 100 GB/s (2 us)."""
    eight = replace(HARDWARE, tensor_parallel=8)
    assert forward_pass_s(MODEL, eight, 100, 0) == pytest.approx(0.00025 + 20 * 12e-6)
