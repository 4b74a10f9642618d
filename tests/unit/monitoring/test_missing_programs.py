"""Without Prometheus a test says what is missing: skipped for a user, failed in CI and for root."""

from __future__ import annotations

import os

import prometheus_programs
import pytest
from prometheus_programs import find_program


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No programs, no CI, no root."""
    monkeypatch.setattr(prometheus_programs.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


def test_a_user_without_prometheus_sees_why_tests_are_skipped(
    nothing_installed: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"promtool is missing: run .* as root"):
        find_program("promtool")


def test_ci_and_root_fail_without_prometheus(nothing_installed: pytest.MonkeyPatch) -> None:
    nothing_installed.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="prometheus is missing"):
        find_program("prometheus")
    nothing_installed.delenv("CI")
    nothing_installed.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(pytest.fail.Exception, match="prometheus is missing"):
        find_program("prometheus")
