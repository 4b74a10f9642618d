"""The page of all time limits."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from time_limits.page import render_page

from paceline.runtime.gateway import time_limits

ROOT = Path(__file__).parents[3]
GATEWAY = ROOT / "src" / "paceline" / "runtime" / "gateway"
_LIMIT = re.compile(r"_?[A-Z_]*(TIMEOUT|DRAIN|EXIT)[A-Z_]*_(S|MS)")


def test_the_page_is_what_the_code_generates() -> None:
    """After a change: PYTHONPATH=tools python -m time_limits.page > docs/time-limits.md."""
    assert (ROOT / "docs" / "time-limits.md").read_text() == render_page()


def test_every_fixed_limit_is_on_the_page_with_a_description() -> None:
    names = [name for name in vars(time_limits) if name.endswith(("_S", "_MS"))]
    rows = {row.split(" | ")[0]: row for row in render_page().splitlines()}
    for name in names:
        _, _, unit, meaning, where = rows[f"| `{name}`"].strip("|").split(" | ")
        assert (unit, where.strip()) == (name.rpartition("_")[2].lower(), "fixed")
        assert len(meaning) > 20


def test_no_other_module_of_the_gateway_defines_a_time_limit() -> None:
    paths = list(GATEWAY.rglob("*.py"))
    assert len(paths) > 100
    for path in paths:
        if path.name == "time_limits.py":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assert not _LIMIT.fullmatch(node.targets[0].id), path


def test_a_rate_is_no_time_limit() -> None:
    assert "_per_s`" not in render_page()
