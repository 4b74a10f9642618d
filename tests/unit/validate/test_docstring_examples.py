"""The examples in docstrings of the validator are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "paceline.validate.checks.api.sampling",
    "paceline.validate.checks.operation.cancellation",
    "paceline.validate.checks.performance.exceedance",
    "paceline.validate.masking",
    "paceline.validate.report.lines",
    "paceline.validate.report.signing",
    "paceline.validate.target.counters",
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
