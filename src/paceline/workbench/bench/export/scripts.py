"""Scripts of other load tools that replay a traffic."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.workbench.bench.export.traffic import Traffic

TOOLS = {"locust": "locust_script.py.txt", "k6": "k6_script.js.txt"}
"""Template of each tool. The ending keeps linters and type checkers of this project away."""
_PLACEHOLDER = "__TRAFFIC__"


def render_script(tool: str, traffic: Traffic) -> str:
    """The script; it holds everything that it needs."""
    template = resources.files(__package__).joinpath(TOOLS[tool]).read_text(encoding="utf-8")
    text = json.dumps(traffic.as_document(), indent=1)
    # JSON is JavaScript as it is. Python reads it from a string.
    return template.replace(_PLACEHOLDER, text if tool == "k6" else repr(text))
