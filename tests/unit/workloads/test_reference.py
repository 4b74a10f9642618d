"""docs/workloads.md lists the workloads that the package declares."""

from __future__ import annotations

from pathlib import Path

from paceline.foundation.workloads.reference import render_reference

PAGE = Path(__file__).parents[3] / "docs" / "workloads.md"


def test_the_page_lists_the_declared_workloads() -> None:
    """After a change: python -m paceline.foundation.workloads.reference > docs/workloads.md."""
    assert PAGE.read_text() == render_reference()
