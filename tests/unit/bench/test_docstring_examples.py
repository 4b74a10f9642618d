"""The examples in docstrings of the bench and of `cost` are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "paceline.workbench.bench.compare.arm_settings",
    "paceline.workbench.bench.compare.block_load",
    "paceline.foundation.results.signed_rank",
    "paceline.foundation.servers.governor.settings",
    "paceline.foundation.load.chunks",
    "paceline.workbench.bench.quick.estimate",
    "paceline.workbench.bench.quick.gain_ratio",
    "paceline.workbench.bench.quick.levels",
    "paceline.workbench.bench.report.axis",
    "paceline.foundation.results.text",
    "paceline.workbench.cost.arithmetic",
    "paceline.workbench.cost.report",
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
