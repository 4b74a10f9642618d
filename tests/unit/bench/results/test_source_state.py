"""The commit of a checkout, its uncommitted changes, and no commit outside of one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from paceline.foundation.results.source_state import SourceState, read_source_state


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that is committed in a checkout of its own."""
    package = tmp_path / "src" / "paceline"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "README.md").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return package


def test_a_clean_checkout_has_its_commit(package: Path) -> None:
    head = git(package, "rev-parse", "HEAD").strip()
    state = read_source_state(package)
    assert state == SourceState(head, ())
    assert state.is_dirty is False


@pytest.mark.parametrize("name", ["src/paceline/__init__.py", "new.py"])
def test_changed_and_untracked_files_make_it_dirty(
    package: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("x = 1\n")
    state = read_source_state(package)
    assert state.is_dirty
    assert state.changes is not None
    assert [line[3:] for line in state.changes] == [name]


def test_a_new_raw_result_does_not_make_it_dirty(package: Path, tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "results" / "x.json").write_text("{}")
    assert read_source_state(package).is_dirty is False


def test_an_installed_package_has_no_commit(tmp_path: Path) -> None:
    package = tmp_path / "paceline"
    package.mkdir()
    (package / "__init__.py").write_text("")
    state = read_source_state(package)
    assert (state.commit, state.is_dirty) == (None, None)


def test_a_package_installed_inside_another_checkout_has_no_commit(
    package: Path, tmp_path: Path
) -> None:
    """The environment of the other project is usually ignored by its git."""
    installed = tmp_path / ".venv" / "lib" / "paceline"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    (tmp_path / ".gitignore").write_text(".venv\n")
    assert read_source_state(installed) == SourceState(None, None)


def test_without_git_there_is_no_commit(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_source_state(package) == SourceState(None, None)
