"""The examples in docstrings of the doctor are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "paceline.operations.doctor.checks.latency.prefill_stalls",
    "paceline.operations.doctor.estimates.gain",
    "paceline.operations.doctor.estimates.money",
    "paceline.operations.doctor.estimates.student",
    "paceline.operations.doctor.output.lines",
    "paceline.operations.doctor.probing.load",
    "paceline.operations.doctor.probing.streams",
    "paceline.foundation.servers.metrics_histogram",
    "paceline.operations.doctor.readings.local_cpu",
    "paceline.foundation.servers.metrics_page",
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
