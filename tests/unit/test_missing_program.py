"""Without a program a test says what is missing: skipped for a user, failed in CI and for root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import jdk_program
import prometheus_programs
import pytest
from browser import chromium_program
from browser.chromium_program import find_chromium
from jdk_program import find_jdk
from prometheus_programs import find_program

FINDERS: list[tuple[Callable[[], object], str]] = [
    (lambda: find_program("promtool"), r"promtool is missing: run .* as root"),
    (lambda: find_jdk("javac"), r"a JDK is missing: run .* as root"),
    (find_chromium, r"Chromium is missing: run .* as root"),
]


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No programs, no CI, no root."""
    for module in (chromium_program, jdk_program, prometheus_programs):
        monkeypatch.setattr(module, "_UNPACKED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


@pytest.mark.parametrize(("find", "reason"), FINDERS)
def test_a_user_sees_why_tests_are_skipped(
    nothing_installed: pytest.MonkeyPatch, find: Callable[[], object], reason: str
) -> None:
    with pytest.raises(pytest.skip.Exception, match=reason):
        find()


@pytest.mark.parametrize(("find", "reason"), FINDERS)
def test_ci_and_root_fail(
    nothing_installed: pytest.MonkeyPatch, find: Callable[[], object], reason: str
) -> None:
    nothing_installed.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=reason):
        find()
    nothing_installed.delenv("CI")
    nothing_installed.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(pytest.fail.Exception, match=reason):
        find()


def test_an_unpacked_jdk_is_found_where_the_path_has_none(
    nothing_installed: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "java-17-openjdk-amd64" / "bin" / "javac"
    program.parent.mkdir(parents=True)
    program.touch()
    assert shutil.which("javac") is None
    assert find_jdk("javac") == str(program)
