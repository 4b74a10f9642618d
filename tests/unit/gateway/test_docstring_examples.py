"""The examples in the docstrings of the gateway run and give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import paceline.runtime.gateway

ROOT = Path(paceline.runtime.gateway.__file__).parent
MODULES = sorted(
    ".".join(("paceline.runtime.gateway", *file.relative_to(ROOT).with_suffix("").parts))
    for file in ROOT.rglob("*.py")
    if ">>> " in file.read_text()
)


def test_examples_are_found() -> None:
    assert "paceline.runtime.gateway.sliding_sum" in MODULES
    assert len(MODULES) >= 6


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert not result.failed
