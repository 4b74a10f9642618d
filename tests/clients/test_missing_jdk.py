"""Without a JDK a test says what is missing: skipped for a user, failed in CI and for root."""

from __future__ import annotations

import os
from pathlib import Path

import jdk_program
import pytest
from jdk_program import find_jdk


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No JDK, no CI, no root."""
    monkeypatch.setattr(jdk_program, "_UNPACKED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


def test_a_user_without_a_jdk_sees_why_tests_are_skipped(
    nothing_installed: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"a JDK is missing: run .* as root"):
        find_jdk("java")


def test_ci_and_root_fail_without_a_jdk(nothing_installed: pytest.MonkeyPatch) -> None:
    nothing_installed.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="a JDK is missing"):
        find_jdk("javac")
    nothing_installed.delenv("CI")
    nothing_installed.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(pytest.fail.Exception, match="a JDK is missing"):
        find_jdk("javac")


def test_an_unpacked_jdk_is_found_where_the_path_has_none(
    nothing_installed: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "java-17-openjdk-amd64" / "bin" / "javac"
    program.parent.mkdir(parents=True)
    program.touch()
    assert find_jdk("javac") == str(program)
