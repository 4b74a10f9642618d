"""Tests run against a changed source, in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.mutation.trial import Trial, run_trial

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
    found = run_trial("doubling", module, source, tests, Trial("passed", 5.0))
    assert found.outcome == outcome
    assert found.cpu_s > 0.0
    assert module.read_text() == SOURCE
    assert "doubling" not in sys.modules


def test_the_quickest_tests_run_first_and_a_failure_ends_the_run(module: Path) -> None:
    """The second test of the file is known to be quicker, and fails."""
    test = module.with_name("test_doubling.py")
    test.write_text(f"{TEST}\ndef test_zero() -> None:\n    assert double(0) == 0\n")
    first = run_trial("doubling", module, SOURCE, [str(test)], Trial("passed", 5.0))
    slow, quick = first.durations_s
    assert slow.endswith("test_double")
    known = Trial("passed", 5.0, {slow: 1.0, quick: 0.5})
    changed = SOURCE.replace("2 *", "1 +")
    assert list(run_trial("doubling", module, changed, [str(test)], known).durations_s) == [quick]


def test_tests_that_do_not_exist_are_an_error(module: Path) -> None:
    assert (
        run_trial("doubling", module, SOURCE, ["nowhere.py"], Trial("passed", 5.0)).outcome
        == "error"
    )
