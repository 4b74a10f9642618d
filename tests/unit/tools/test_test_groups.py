"""Groups of checks record how they ended, and the sum names every failed test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
OUTPUT = """
FAILED tests/unit/test_a.py::test_one[100% of a b] - assert 0
ERROR tests/unit/test_b.py - ImportError
ERROR    paceline.runtime.gateway:server.py:1 a line of a log
"""
PYTEST_FILE = """
import pytest

def test_one():
    assert 0

@pytest.mark.parametrize("x", ["a - b"])
def test_two(x):
    assert 0

@pytest.fixture
def broken():
    raise ValueError

def test_three(broken):
    pass

def test_good():
    pass
"""


def bash(folder: Path, script: str, *arguments: str, **variables: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "KEEP_GOING"}
    done = subprocess.run(
        ["bash", str(SCRIPTS / script), *arguments], cwd=folder, env={**environment, **variables},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def group(folder: Path, name: str, command: str, **variables: str) -> int:
    return bash(folder, "run-group.sh", name, "bash", "-c", command, **variables)[0]


def sum_up(folder: Path, *names: str) -> tuple[int, list[str]]:
    status, text = bash(folder, "sum-up-groups.sh", *names)
    return status, text.splitlines()


def test_every_failed_test_is_named(tmp_path: Path) -> None:
    group(tmp_path, "good", "echo fine")
    group(tmp_path, "bad", f"echo '{OUTPUT}'; exit 1")
    assert sum_up(tmp_path, "good", "bad") == (1, [
        "bad: FAILED tests/unit/test_a.py::test_one[100% of a b] - assert 0",
        "bad: ERROR tests/unit/test_b.py - ImportError",
        "1 of 2 groups failed: bad",
    ])  # fmt: skip


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"FORCE_COLOR": "1"},
        {"PY_COLORS": "1"},
        {"PYTEST_ADDOPTS": "--color=yes"},
        {"PYTEST_ADDOPTS": "-rN"},
        {"PYTEST_ADDOPTS": "--no-summary -q -q"},
        {"PYTEST_ADDOPTS": "-k test_of_nothing"},
        {"FORCE_COLOR": "3", "PY_COLORS": "1", "PYTEST_ADDOPTS": "-vv --color=yes"},
    ],
    ids=str,
)
def test_every_failed_test_of_pytest_is_named_whatever_the_user_has_set(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST_FILE)
    (tmp_path / "test_broken.py").write_text("import module_that_does_not_exist\n")
    command = f"{sys.executable} -m pytest -q -c /dev/null --continue-on-collection-errors ."
    group(tmp_path, "bad", command, **variables)
    status, lines = sum_up(tmp_path, "bad")
    assert (status, lines.pop()) == (1, "1 of 1 groups failed: bad")
    assert set(lines) == {
        "bad: FAILED test_it.py::test_one - assert 0",
        "bad: FAILED test_it.py::test_two[a - b] - assert 0",
        "bad: ERROR test_it.py::test_three - ValueError",
        "bad: ERROR test_broken.py",
    }


def test_all_green_is_the_last_line(tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert group(tmp_path, name, f"echo '{OUTPUT}'") == 0
    assert sum_up(tmp_path, "one", "two") == (0, ["2 groups, all green"])


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -KILL $$", 137)])
def test_a_group_that_names_no_test_is_shown_with_its_last_lines(
    tmp_path: Path, command: str, status: int
) -> None:
    group(tmp_path, "crashed", f"echo the last words >&2; {command}")
    assert sum_up(tmp_path, "crashed") == (1, [
        f"crashed ended with exit status {status} without naming a test; its last lines:",
        "    the last words",
        "1 of 1 groups failed: crashed",
    ])  # fmt: skip


def test_a_group_that_did_not_run_has_failed(tmp_path: Path) -> None:
    status, lines = sum_up(tmp_path, "missing")
    assert status == 1
    assert lines[0].startswith("missing did not run: ")


def test_a_group_that_is_killed_leaves_no_earlier_record(tmp_path: Path) -> None:
    group(tmp_path, "one", "true")
    group(tmp_path, "one", "kill -KILL $PPID")
    assert sum_up(tmp_path, "one")[0] == 1


@pytest.mark.parametrize("record", [b"", b"\n", b"\0", b"FAILED tests/unit/test_a.py::test_one\n"])
@pytest.mark.parametrize("has_log", [True, False])
def test_a_group_without_a_whole_record_has_failed(
    tmp_path: Path, record: bytes, *, has_log: bool
) -> None:
    for name in ("one", "two"):
        group(tmp_path, name, "echo the last words")
    results = tmp_path / "build" / "test-results"
    (results / "one.txt").write_bytes(record)
    if not has_log:
        (results / "one.log").unlink()
    status, lines = sum_up(tmp_path, "one", "two")
    assert (status, lines[-1]) == (1, "1 of 2 groups failed: one")
    assert lines[0].startswith("one ended with exit status ")
    assert ("    the last words" in lines) == has_log


@pytest.mark.parametrize("command", ["true", "exit 3", "echo words"])
def test_a_group_whose_record_cannot_be_written_has_failed(tmp_path: Path, command: str) -> None:
    """No file may have a byte, as on a full disk."""
    group(tmp_path, "good", "true")
    script = "trap '' XFSZ; ulimit -f 0; exec bash \"$@\""
    subprocess.run(
        ["bash", "-c", script, "-", str(SCRIPTS / "run-group.sh"), "one", "bash", "-c", command],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    status, lines = sum_up(tmp_path, "one", "good")
    assert (status, lines[-1]) == (1, "1 of 2 groups failed: one")
    assert lines[0].startswith("one ended with exit status unknown ")


def test_a_failure_ends_make_unless_it_keeps_going(tmp_path: Path) -> None:
    """Then the groups that wait for this one run, and the sum reports it."""
    assert group(tmp_path, "bad", "exit 3") == 3
    assert group(tmp_path, "bad", "exit 3", KEEP_GOING="1") == 0
    assert sum_up(tmp_path, "bad")[0] == 1
