"""The page of number formats is that of the table."""

from __future__ import annotations

from pathlib import Path

from paceline.foundation.compatibility.reference import render_page


def test_the_page_is_current() -> None:
    page = Path(__file__).parents[3] / "docs" / "number-formats.md"
    assert page.read_text(encoding="utf-8") == render_page()
