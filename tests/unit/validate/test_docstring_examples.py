"""The examples in docstrings of the validator are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "paceline.operations.validate.checks.api.sampling",
    "paceline.operations.validate.checks.operation.cancellation",
    "paceline.operations.validate.checks.performance.exceedance",
    "paceline.operations.validate.masking",
    "paceline.operations.validate.report.lines",
    "paceline.operations.validate.report.signing",
    "paceline.operations.validate.target.counters",
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
