"""docs/policies.md is what the declarations generate, and its example keeps the contract."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from paceline import check_policy
from paceline.runtime.policy_registry.reference import render_page

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"


def test_the_page_is_what_the_declarations_generate() -> None:
    """After a change: python -m paceline.runtime.policy_registry.reference > docs/policies.md."""
    assert PAGE.read_text() == render_page()


def test_the_example_of_the_page_is_a_sound_policy() -> None:
    found = re.search(r"```python\n(# halve\.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found.group(1), "halve.py", "exec"), names)
    check_policy(names["POLICY"])
    check_policy(names["POLICY"], share=0.25)
