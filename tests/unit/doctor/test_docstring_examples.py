"""The examples in docstrings of the doctor are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "paceline.doctor.checks.latency.prefill_stalls",
    "paceline.doctor.estimates.gain",
    "paceline.doctor.estimates.money",
    "paceline.doctor.estimates.student",
    "paceline.doctor.output.lines",
    "paceline.doctor.probing.load",
    "paceline.doctor.probing.streams",
    "paceline.metrics_histogram",
    "paceline.doctor.readings.local_cpu",
    "paceline.metrics_page",
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
