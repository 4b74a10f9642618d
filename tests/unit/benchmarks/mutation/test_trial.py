"""Tests run against a changed source, in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.mutation.trial import run_trial

SOURCE = "def double(number: int) -> int:\n    return 2 * number\n"
TEST = """
from doubling import double

def test_double() -> None:
    assert double(3) == 6
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with a test, in a folder on the path."""
    path = tmp_path / "doubling.py"
    path.write_text(SOURCE)
    (tmp_path / "test_doubling.py").write_text(TEST)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return path


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        (SOURCE, "passed"),
        (SOURCE.replace("2 *", "3 *"), "failed"),
        (SOURCE.replace("double", "halve"), "failed"),  # the test cannot be imported
    ],
)
def test_the_outcome_is_that_of_the_changed_source(module: Path, source: str, outcome: str) -> None:
    """The file stays as it is, and so do the modules of this process."""
    tests = [str(module.with_name("test_doubling.py"))]
    found = run_trial("doubling", module, source, tests, baseline_s=5.0)
    assert found.outcome == outcome
    assert found.cpu_s > 0.0
    assert module.read_text() == SOURCE
    assert "doubling" not in sys.modules


def test_tests_that_do_not_exist_are_an_error(module: Path) -> None:
    assert run_trial("doubling", module, SOURCE, ["nowhere.py"], baseline_s=5.0).outcome == "error"
