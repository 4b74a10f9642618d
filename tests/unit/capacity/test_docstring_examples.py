"""The examples in the docstrings of the arithmetic run and give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import paceline.foundation.capacity

ROOT = Path(paceline.foundation.capacity.__file__).parent
MODULES = sorted(
    ".".join(("paceline.foundation.capacity", *file.relative_to(ROOT).with_suffix("").parts))
    for file in ROOT.rglob("*.py")
    if ">>> " in file.read_text()
)


def test_examples_are_found() -> None:
    assert "paceline.foundation.capacity.queueing" in MODULES
    assert len(MODULES) >= 7


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert not result.failed
