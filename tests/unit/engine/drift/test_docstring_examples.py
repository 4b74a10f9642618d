"""The examples in docstrings of the drift watch."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from paceline.runtime.engine.drift import lost_rate, text_acceptance


@pytest.mark.parametrize("module", [lost_rate, text_acceptance])
def test_examples_hold(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
