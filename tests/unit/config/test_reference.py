"""docs/configuration.md is generated from the tree."""

from __future__ import annotations

from pathlib import Path

from paceline.runtime.config.reference import render_reference

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_is_what_the_tree_generates() -> None:
    """After a change: python -m paceline.runtime.config.reference > docs/configuration.md."""
    assert PAGE.read_text() == render_reference()
