"""Outcomes that are kept between mutation runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutation import known
from benchmarks.mutation.known import Known

TESTS = ["test_a.py"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of outcomes: one mutant was killed, one survived."""
    monkeypatch.setattr(known, "ROOT", tmp_path)
    (tmp_path / TESTS[0]).write_text("assert one")
    path = tmp_path / "state" / "a.json"
    found = Known.read(path, "source", TESTS)
    assert "mutant 1" not in found
    found["mutant 1"], found["mutant 2"] = "failed", "passed"
    found.write(path)
    return path


def test_outcomes_are_kept_while_nothing_changes(state: Path) -> None:
    found = Known.read(state, "source", TESTS)
    assert (found["mutant 1"], found["mutant 2"]) == ("failed", "passed")


def test_after_a_new_test_only_survivors_run_again(state: Path) -> None:
    (state.parents[1] / TESTS[0]).write_text("assert one and two")
    found = Known.read(state, "source", TESTS)
    assert "mutant 1" in found
    assert "mutant 2" not in found


def test_after_a_change_of_the_module_all_run_again(state: Path) -> None:
    found = Known.read(state, "other source", TESTS)
    assert "mutant 1" not in found
