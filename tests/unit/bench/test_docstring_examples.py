"""The examples in docstrings of the bench and of `cost` are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "paceline.bench.compare.arm_settings",
    "paceline.bench.compare.block_load",
    "paceline.bench.compare.signed_rank",
    "paceline.bench.governor.settings",
    "paceline.bench.load.chunks",
    "paceline.bench.quick.estimate",
    "paceline.bench.quick.gain_ratio",
    "paceline.bench.quick.levels",
    "paceline.bench.report.axis",
    "paceline.bench.report.text",
    "paceline.cost.arithmetic",
    "paceline.cost.report",
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
