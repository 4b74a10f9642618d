"""Without Chromium a test says what is missing: skipped for a user, failed in CI and for root."""

from __future__ import annotations

import os

import pytest

from browser import chromium_program
from browser.chromium_program import find_chromium


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No browser, no CI, no root."""
    monkeypatch.setattr(chromium_program, "_search", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


def test_a_user_without_chromium_sees_why_tests_are_skipped(
    nothing_installed: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"Chromium is missing: run .* as root"):
        find_chromium()


def test_ci_and_root_fail_without_chromium(nothing_installed: pytest.MonkeyPatch) -> None:
    nothing_installed.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Chromium is missing"):
        find_chromium()
    nothing_installed.delenv("CI")
    nothing_installed.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(pytest.fail.Exception, match="Chromium is missing"):
        find_chromium()
